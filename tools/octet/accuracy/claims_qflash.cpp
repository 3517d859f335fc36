// Rows of QFlash (16 - 36) and of the softmax baselines that it compares with (63).
#include "accuracy/claim_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace octet::tool {
namespace {

void fixtures(ClaimList& list) {
  int cases = 0;
  double codes = 0, differing = 0;
  if (const Json* experiment = list.measured().experiment("numerics", "qflash/fixtures")) {
    for (const Json& row : experiment->at("rows")) {
      const auto name = row.at("name").get<std::string>();
      codes += list.numeric("qflash/fixtures", name, "codes");
      differing += list.numeric("qflash/fixtures", name, "differing");
      ++cases;
    }
  }
  list.add(16, "QFlash's integer forward pass (Algorithm 1)", "bit exact",
           "cases of a bit model of its code, tests/data/qflash", kNumerics,
           fmt::format("{} of {} output codes differ, in {} cases", differing, codes, cases),
           judge(cases > 0 ? differing : std::nan(""), differing == 0, "reproduced", "not reproducible"));
}

void shift_exp2(ClaimList& list) {
  const auto range = [&](const char* row) {
    return fmt::format("{:.1f} … +{:.2f} %", 100 * list.numeric("shift_exp2", row, "least_relative"),
                       100 * list.numeric("shift_exp2", row, "most_relative"));
  };
  const auto largest = [&](const std::string& row) {
    return std::max(std::fabs(list.numeric("shift_exp2", row, "least_relative")),
                    list.numeric("shift_exp2", row, "most_relative"));
  };
  constexpr double kLine = 6.148;  // %: 1 + r/2 against 2^r, at r = 1/ln 2 - 1
  constexpr double kSame = .01;
  const double ideal = 100 * list.numeric("shift_exp2", "ideal", "most_relative");
  const double integer = 100 * largest("integer");
  list.add(18, "ShiftExp2 by multiply and shift", "largest relative error 6.15 % (ideal)",
           "every argument to 2^-8", kNumerics,
           fmt::format("line +{:.2f} %; A1–A3 {}; A4–A7 {}; D = 2.27e-5 {}; integer's own {}", ideal,
                       range("A1-A3, multiply"), range("A4-A7, multiply"), range("D=2.27e-5, multiply"),
                       range("integer")),
           judge(ideal + integer, near(ideal, kLine, .01),
                 integer < kLine ? "reproduced, and beaten by integer's" : "reproduced", "corrected"));
  std::vector<std::string> better, worse;
  double all = 0;
  for (const char* scales : {"A1-A3", "A4-A7", "D=2.27e-5"}) {
    const double by_division = largest(fmt::format("{}, divide", scales)),
                 by_multiplier = largest(fmt::format("{}, multiply", scales));
    all += by_division + by_multiplier;
    if (near(by_division, by_multiplier, kSame)) continue;
    (by_division < by_multiplier ? better : worse).emplace_back(scales);
  }
  list.add(19, "ShiftExp2 by division", "the same values", "every argument to 2^-8", kNumerics,
           fmt::format("A1–A3 {}; A4–A7 {}; D = 2.27e-5 {}", range("A1-A3, divide"), range("A4-A7, divide"),
                       range("D=2.27e-5, divide")),
           judge(all, better.empty() && worse.empty(), "reproduced",
                 worse.empty() ? "corrected: better for " + listed(better) + ", the multiplier has few digits"
                               : "corrected: worse for " + listed(worse)));
}

std::string pair_of(const ClaimList& list, const char* row) {
  return fmt::format("{} / {}", list.decibels("qflash/a2", row), list.decibels("qflash/a7", row));
}

void benchmark(ClaimList& list) {
  const char* protocol = "A2 / A7: U(-4, 4) in f16, against float64";
  constexpr double kDraws = .02;   // of dB: what a paper's one draw moves
  constexpr double kBeaten = 2.8;  // dB
  const double integer_a2 = list.db("qflash/a2", "integer"), integer_a7 = list.db("qflash/a7", "integer");
  const double a2 = list.db("qflash/a2", "qflash"), a7 = list.db("qflash/a7", "qflash");
  const std::string qflash = agreement({{"A2", a2, 32.5}, {"A7", a7, 31.02}}, kDraws);
  list.add(26, "SQNR of QFlash", "32.50 / 31.02 dB", protocol, kProtocols,
           fmt::format("qflash {}; integer {}", pair_of(list, "qflash"), pair_of(list, "integer")),
           judge(a2 + a7 + integer_a2 + integer_a7, integer_a2 >= a2 + kBeaten && integer_a7 >= a7 + kBeaten,
                 qflash + "; beaten by integer", qflash));
  list.add(27, "SQNR of the mixed baselines",
           "half 38.19 / 39.07, full 36.92 / 37.80, QAttn 34.12 / 34.75 dB", protocol, kProtocols,
           fmt::format("half {}; full {}; QAttn {}", pair_of(list, "int8_half"), pair_of(list, "int8_full"),
                       pair_of(list, "qattn")),
           agreement({{"half A2", list.db("qflash/a2", "int8_half"), 38.19},
                      {"half A7", list.db("qflash/a7", "int8_half"), 39.07},
                      {"full A2", list.db("qflash/a2", "int8_full"), 36.92},
                      {"full A7", list.db("qflash/a7", "int8_full"), 37.80},
                      {"QAttn A2", list.db("qflash/a2", "qattn"), 34.12},
                      {"QAttn A7", list.db("qflash/a7", "qattn"), 34.75}},
                     kDraws));
  constexpr double kMoves = 3;          // dB
  constexpr double kSimulated = .03;    // of dB, between two programs of one formula
  constexpr double kSquaredDraws = .1;  // of a mean square: 0.4 dB
  const Place ivit{"protocols", "qflash/a2", "ivit"};
  const double spread =
      list.measured().extreme(ivit, "most", "sqnr_db") - list.measured().extreme(ivit, "least", "sqnr_db");
  list.add(28, "SQNR of I-ViT", "25.80 / 25.22 dB", protocol, kProtocols, pair_of(list, "ivit"),
           judge(spread, spread > kMoves, "not reproducible: one draw of what moves by decibels",
                 agreement({{"A2", list.db("qflash/a2", "ivit"), 25.80},
                            {"A7", list.db("qflash/a7", "ivit"), 25.22}},
                           kDraws)));
  const auto square = [&](const char* workload, const char* row) {
    const double x = list.share(workload, row, "rmse");
    return x * x;
  };
  const auto mse = [&](const char* row) {
    return fmt::format("{:.2e} / {:.2e}", square("qflash/a2", row), square("qflash/a7", row));
  };
  std::vector<Pair> errors;
  for (const auto& [name, row, on_a2, on_a7] : {std::tuple{"I-ViT", "ivit", 7.05e-3, 9.38e-3},
                                                {"QAttn", "qattn", 1.04e-3, 1.04e-3},
                                                {"half", "int8_half", 4.04e-4, 3.86e-4},
                                                {"full", "int8_full", 5.41e-4, 5.17e-4},
                                                {"QFlash", "qflash", 1.51e-3, 2.47e-3}}) {
    errors.push_back({fmt::format("{} A2", name), square("qflash/a2", row), on_a2});
    errors.push_back({fmt::format("{} A7", name), square("qflash/a7", row), on_a7});
  }
  list.add(29, "MSE of all of them",
           "I-ViT 7.05e-3 / 9.38e-3, QAttn 1.04e-3 / 1.04e-3, half 4.04e-4 / 3.86e-4, full "
           "5.41e-4 / 5.17e-4, QFlash 1.51e-3 / 2.47e-3",
           protocol, kProtocols,
           fmt::format("I-ViT {}, QAttn {}, half {}, full {}, QFlash {}, integer {}", mse("ivit"),
                       mse("qattn"), mse("int8_half"), mse("int8_full"), mse("qflash"), mse("integer")),
           agreement(errors, kSquaredDraws));
  list.add(63, "I-ViT, I-BERT and FQ-ViT softmax as drop-ins",
           "no SQNR but I-ViT's (row 28); simulated: I-BERT 34.6 / 36.1, FQ-ViT 13.9 / 14.6 dB", protocol,
           kProtocols,
           fmt::format("I-ViT {}; I-BERT {}; FQ-ViT {}", pair_of(list, "ivit"), pair_of(list, "ibert"),
                       pair_of(list, "fqvit")),
           agreement({{"I-BERT A2", list.db("qflash/a2", "ibert"), 34.6},
                      {"I-BERT A7", list.db("qflash/a7", "ibert"), 36.1},
                      {"FQ-ViT A2", list.db("qflash/a2", "fqvit"), 13.9},
                      {"FQ-ViT A7", list.db("qflash/a7", "fqvit"), 14.6}},
                     kSimulated));
}

void lengths(ClaimList& list) {
  constexpr double kSimulated = 1;  // dB from what a simulation of other draws gave
  constexpr double kGood = 33;      // dB
  std::string ours;
  std::vector<std::string> corrected;
  double least = INFINITY, all = 0;
  for (const auto& [keys, printed] :
       {std::pair{197, 15.0}, {1024, 8.0}, {4096, 3.7}, {16384, .1}, {65536, 0.0}}) {
    const std::string here = fmt::format("qflash/normal/n{}", keys);
    const double qflash = list.db(here, "qflash");
    all += qflash + list.db(here, "integer");
    if (!(std::fabs(qflash - printed) <= kSimulated)) corrected.push_back(fmt::format("{}", keys));
  }
  for (const int keys : {197, 1024, 4096, 16384, 65536}) {
    const std::string place = fmt::format("qflash/normal/n{}", keys);
    ours += fmt::format("{}{}: {:.1f} / {:.1f}", keys == 197 ? "" : ", ", keys, list.db(place, "qflash"),
                        list.db(place, "integer"));
    least = std::min(least, list.db(place, "integer"));
  }
  list.add(30, "QFlash on N(0, 1) and long rows", "15 / 8 / 3.7 / 0.1 dB at 197 / 1k / 4k / 16k (simulated)",
           "d = 64; dB qflash / integer", kProtocols, ours,
           judge(all, corrected.empty(), least > kGood ? "reproduced, and beaten by integer" : "reproduced",
                 "corrected at " + listed(corrected) + " keys"));
  list.add(36, "INT8 output can be used downstream", "written with V's scale, truncated",
           "row 30's data, output codes", kProtocols,
           fmt::format("a power-of-two scale a row, rounded: {} at 16k keys (qflash {})",
                       list.decibels("qflash/normal/n16384", "integer"),
                       list.decibels("qflash/normal/n16384", "qflash")),
           judge(all, least > kGood, "beaten", "not reproducible"));
}

void robustness(ClaimList& list) {
  std::string ours;
  double integer = 0, qflash = 0;
  for (int exponent = -3; exponent <= 5; ++exponent) {
    const std::string place = fmt::format("robustness/1e{}", exponent);
    const double q = list.measured().figure({"robustness", place, "qflash"}, "seeds_outside");
    integer += list.measured().figure({"robustness", place, "integer"}, "seeds_outside");
    qflash += q;
    ours += fmt::format("{}1e{}: {}", exponent == -3 ? "" : ", ", exponent, q);
  }
  list.add(
      31, "Robust to the scale of Q and K", "wraps, leaks and negative weights outside about 4 to 350",
      "seeds of 16 with an output that is no weighted mean, by the largest q times the largest k; a third "
      "of the keys hidden",
      "octet accuracy --suite robustness", fmt::format("integer: {} of 144; qflash: {}", integer, ours),
      judge(integer + qflash, qflash > 0,
            integer == 0 ? "reproduced, and beaten by integer" : "reproduced, by integer too",
            "not reproducible"));
}

void bops(ClaimList& list) {
  constexpr double kPrinted = 34.3e9, kBitsOfAMac = 8 * 8, kSame = .02;
  const double macs = list.numeric("bops", "DeiT-S", "macs");
  list.add(34, "BOPs of DeiT-S", "34.3 G", "arithmetic: 2 x 12 x 197^2 x 384 MACs, 8 x 8 bits each",
           kNumerics,
           fmt::format("{:.1f} G at 64 bit² a MAC; the printed figure takes {:.0f}", macs * kBitsOfAMac / 1e9,
                       kPrinted / macs),
           judge(macs, near(macs * kBitsOfAMac, kPrinted, kSame), "reproduced", "corrected"));
}

}  // namespace

void add_qflash_claims(ClaimList& list) {
  constexpr double kSound = 20, kCollapsed = 5;  // dB
  fixtures(list);
  list.add(17, "QFlash's masked kernel (Swin)", "none", "7 x 7 window, relative bias N(0, 1), shift mask",
           kProtocols,
           fmt::format("qflash {}, integer {}; tests QFlashFeatures", list.decibels("qflash/swin", "qflash"),
                       list.decibels("qflash/swin", "integer")),
           judge(list.db("qflash/swin", "qflash"), list.db("qflash/swin", "qflash") > kSound, "reproduced",
                 "not reproducible"));
  shift_exp2(list);
  std::string tiles;
  for (const int keys : {32, 64, 128, 256, 512, 1024}) {
    const std::string place = fmt::format("qflash/tiles/n{}", keys);
    tiles += fmt::format("{}{}: {:.1f} / {:.1f}", keys == 32 ? "" : ", ", keys / 32, list.db(place, "qflash"),
                         list.db(place, "qflash, scale accumulation"));
  }
  const double release = list.db("qflash/tiles/n1024", "qflash"),
               accumulated = list.db("qflash/tiles/n1024", "qflash, scale accumulation");
  list.add(21, "Scale release is stable, scale accumulation collapses (Figure 5)", "no figures in the text",
           "U(-4, 4), d = 64, 1 to 32 tiles of 32 keys; dB release / accumulation", kProtocols, tiles,
           judge(release + accumulated, release > kSound && accumulated < kCollapsed, "reproduced",
                 "not reproducible"));
  // What scales a token gain over one scale a tensor where they gain least, dB.
  const double finer =
      std::min(list.db("qflash/a2", "integer") - list.db("qflash/a2", "integer, per tensor"),
               list.db("qflash/a7", "integer") - list.db("qflash/a7", "integer, per tensor"));
  list.add(
      22, "Scales per tensor, per head; per token impossible in QFlash", "no figures",
      "A2 / A7, scheme integer", kProtocols,
      fmt::format("per tensor {:.1f} / {:.1f}, per head {:.1f} / {:.1f}, Q and V per token {:.1f} / "
                  "{:.1f}, default "
                  "{:.1f} / {:.1f} dB",
                  list.db("qflash/a2", "integer, per tensor"), list.db("qflash/a7", "integer, per tensor"),
                  list.db("qflash/a2", "integer, per head"), list.db("qflash/a7", "integer, per head"),
                  list.db("qflash/a2", "integer, Q and V per token, K per head"),
                  list.db("qflash/a7", "integer, Q and V per token, K per head"),
                  list.db("qflash/a2", "integer"), list.db("qflash/a7", "integer")),
      judge(finer, finer > 0, "beaten: per token works in integers", "reproduced: per token gains nothing"));
  benchmark(list);
  lengths(list);
  robustness(list);
  bops(list);
}

}  // namespace octet::tool
