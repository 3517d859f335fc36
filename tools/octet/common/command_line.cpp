#include "common/command_line.h"

#include <CLI/CLI.hpp>
#include <cctype>
#include <utility>
#include <vector>

#include "common/sentence.h"
#include "io/host_tensor.h"

namespace octet::tool {
namespace {

template <class Value>
Argument bound(CLI::App& command, const char* name, const char* value, Value& to, const std::string& help) {
  return Argument(*command.add_option(name, to, help)->type_name(value));
}

/// One sentence of what the parser complains about: its own first line, and where to read on.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  std::string what = error.what();
  what = what.substr(0, what.find('\n'));
  while (!what.empty() && (what.back() == '.' || what.back() == ' ')) what.pop_back();
  // note: the parser begins its sentences in upper case, ours follow "octet: ".
  if (!what.empty() && what[0] != '-')
    what[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(what[0])));
  std::string command = app.get_name();
  for (const CLI::App* sub : app.get_subcommands()) command += " " + sub->get_name();
  return fmt::format("{}; see {} --help", what, command);
}

/// OK unless the first word is neither an option nor a command; the parser would only say that a command is
/// missing.
Status check_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return {};
  std::string names;
  for (const CLI::App* sub : app.get_subcommands({})) {
    if (sub->get_name() == argv[1]) return {};
    names += (names.empty() ? "" : ", ") + sub->get_name();
  }
  return broken("the command", in_quotes(argv[1]), "there is none of this name", "choose one of " + names);
}

}  // namespace

Argument& Argument::shows_default() {
  option_.capture_default_str();
  return *this;
}

Argument& Argument::environment(const char* variable) {
  option_.envname(variable);
  return *this;
}

Argument& Argument::range(int low, int high) {
  option_.check(CLI::Range(low, high));
  return *this;
}

Argument& Argument::check(std::function<std::string(const std::string& text)> complaint) {
  constexpr const char* kNotInHelp = "";
  option_.check(std::move(complaint), kNotInHelp);
  return *this;
}

Argument Arguments::option(const char* name, const char* value, std::string& to, const std::string& help) {
  return bound(command_, name, value, to, help);
}

Argument Arguments::option(const char* name, const char* value, int& to, const std::string& help) {
  return bound(command_, name, value, to, help);
}

Argument Arguments::option(const char* name, const char* value, std::int64_t& to, const std::string& help) {
  return bound(command_, name, value, to, help);
}

void Arguments::flag(const char* name, bool& to, const char* help) { command_.add_flag(name, to, help); }

void Arguments::describe(const char* name, const char* help) { command_.get_option(name)->description(help); }

struct CommandLine::Parser {
  struct Command {
    const CLI::App* app;
    Action action;
  };
  CLI::App app;
  std::vector<Command> commands;
};

CommandLine::CommandLine(const char* summary, const char* version) : parser_(std::make_unique<Parser>()) {
  constexpr std::size_t kHelpColumn = 28;
  CLI::App& app = parser_->app;
  app.name("octet");
  app.description(summary);
  app.set_version_flag("--version", version);
  app.require_subcommand(1);
  app.get_formatter()->column_width(kHelpColumn);
}

CommandLine::~CommandLine() = default;

Arguments CommandLine::command(const char* name, const char* summary, Action action) {
  CLI::App* command = parser_->app.add_subcommand(name, summary);
  parser_->commands.push_back({command, std::move(action)});
  return Arguments(*command);
}

Result<Action> CommandLine::parse(int argc, char** argv) {
  CLI::App& app = parser_->app;
  if (Status s = check_command(app, argc, argv); !s.ok()) return s;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return invalid_argument(usage_error(app, error));
    app.exit(error);  // prints --help, --version
    return Action([] { return Status(); });
  }
  for (const Parser::Command& command : parser_->commands) {
    if (app.got_subcommand(command.app)) return command.action;
  }
  return Action([] { return Status(); });
}

}  // namespace octet::tool
