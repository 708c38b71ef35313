// All settings of Tutti: one typed list with name, default, unit, range and reason.
//
// A setting is read from TUTTI_<name>, else from the NCCL variable of the same meaning, if there is
// one, else it has its default. A Settings object parses all of them once. A value that does not
// parse or is out of range is an error that names the variable, the value and the legal range.
// `tutti env` prints the list; unknown TUTTI_* and NCCL_* names get a "did you mean".
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/error.hpp"

namespace tutti {

struct SettingInfo {
  enum class Kind : std::uint8_t { kInt, kBool, kString, kSeconds, kBytes, kChoice };
  std::string_view name;  ///< without prefix: "TIMEOUT"
  Kind kind = Kind::kInt;
  std::string_view default_value;  ///< as text
  std::string_view unit;           ///< "s", "bytes", ""
  std::string_view range;          ///< "0..3600", "INFO|WARN|...": shown and enforced
  std::string_view nccl_name;  ///< NCCL's variable, read when TUTTI_<name> is unset; "" for none
  std::string_view why;
  bool secret = false;  ///< never shown in messages, logs or `tutti env`
};

std::span<const SettingInfo> all_settings();

std::string_view name_of(SettingInfo::Kind kind);

/// Reads an environment variable; nullopt when unset. Tests pass their own function.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();

/// A TUTTI_* or NCCL_* variable that no setting reads.
struct UnknownSetting {
  std::string name;
  std::string nearest;  ///< the likely intended name; "" when none is close
  friend bool operator==(const UnknownSetting&, const UnknownSetting&) = default;
};
/// `names` are variable names without values. Names with other prefixes are ignored. The result is
/// sorted.
std::vector<UnknownSetting> unknown_settings(std::span<const std::string> names);
/// Names of the variables of this process.
std::vector<std::string> process_environment_names();

/// An immutable snapshot. Value. Default-constructed: all defaults.
class Settings {
 public:
  /// A variable set to the empty string counts as unset.
  static Result<Settings> load(const Environment& environment);

  /// `name` must be in all_settings() and of the requested kind. kSeconds yields seconds as double.
  [[nodiscard]] std::int64_t integer(std::string_view name) const;
  [[nodiscard]] bool flag(std::string_view name) const;
  [[nodiscard]] const std::string& text(std::string_view name) const;
  [[nodiscard]] double seconds(std::string_view name) const;

  /// Where the value came from: "default", "TUTTI_X" or "NCCL_X".
  [[nodiscard]] const std::string& source(std::string_view name) const;
  /// The value as anyone may see it. A secret that is set reads "(set, not shown)".
  [[nodiscard]] std::string displayed(std::string_view name) const;

 private:
  struct Value {
    std::string text;
    std::string source;
    std::int64_t integer = 0;
    double seconds = 0;
  };
  static Result<Value> parse(const SettingInfo& info, std::string text, std::string source);
  [[nodiscard]] const Value& value(std::string_view name) const;

  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace tutti
