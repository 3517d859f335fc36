// The command line: its commands and their arguments, parsed into variables.
//
// CLI11 stays behind this. Its validators are objects at namespace scope, so each file that includes it
// compiles them all: 5 CPU s a file, of which there would be ten.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "octet/status.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace octet::tool {

/// What a command does once its arguments are parsed. It prints to standard output only when all went well.
using Action = std::function<Status()>;

/// One argument that takes a value; what is said of it here shows in --help.
class Argument {
 public:
  explicit Argument(CLI::Option& option) : option_(option) {}

  /// Its default is shown: what the variable holds by now.
  Argument& shows_default();
  /// The environment variable that it is read from where it is not given.
  Argument& environment(const char* variable);
  /// Integers from `low` to `high`; others are refused.
  Argument& range(int low, int high);
  /// `complaint` of the text that is given: empty, or a sentence without its subject.
  Argument& check(std::function<std::string(const std::string& text)> complaint);

 private:
  CLI::Option& option_;
};

/// The arguments of one command. Variables live until it has run.
class Arguments {
 public:
  explicit Arguments(CLI::App& command) : command_(command) {}

  /// `name VALUE`: `value` stands for it in --help. Without it the variable stays as it is.
  Argument option(const char* name, const char* value, std::string& to, const std::string& help);
  Argument option(const char* name, const char* value, int& to, const std::string& help);
  Argument option(const char* name, const char* value, std::int64_t& to, const std::string& help);
  /// `name`, without a value, sets the variable.
  void flag(const char* name, bool& to, const char* help);
  /// Another help text for an option that is there.
  void describe(const char* name, const char* help);

 private:
  CLI::App& command_;
};

/// All commands, in the order in which --help lists them. `octet` needs one, and knows --help and --version.
class CommandLine {
 public:
  CommandLine(const char* summary, const char* version);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  /// Adds one; `action` runs it.
  Arguments command(const char* name, const char* summary, Action action);

  /// The action that the arguments ask for; one that does nothing where --help or --version were printed.
  /// Error: what does not parse, in one sentence.
  Result<Action> parse(int argc, char** argv);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace octet::tool
