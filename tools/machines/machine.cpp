#include "tools/machines/machine.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "src/base/nearest.hpp"
#include "src/base/result.hpp"
#include "src/topo/model/words.hpp"

namespace tutti::topo {
namespace {

constexpr std::string_view kBlanks = " \t";

/// A part of the text, and where it begins.
struct Word {
  std::string_view text;
  std::size_t at = 0;  ///< counted from 0
};

/// An error at a word.
Error unexpected(const Word& word, std::string_view expected) {
  return make_error(Code::kInvalidArgument, "column {}: found {}, expected {}", word.at + 1,
                    word.text.empty() ? "the end" : shown(word.text), expected);
}

/// The same for what another function says of a word.
Error at(const Word& word, const Error& error) {
  return make_error(error.code, "column {}: {}", word.at + 1, error.what);
}

/// What stands before the first `separator` in `word`; that and the separator are taken out. All of
/// it where there is none.
Word split_off(Word& word, char separator) {
  const std::size_t end = std::min(word.text.find(separator), word.text.size());
  const Word part{word.text.substr(0, end), word.at};
  const std::size_t taken = std::min(end + 1, word.text.size());
  word = {word.text.substr(taken), word.at + taken};
  return part;
}

/// A number that is all of the word.
template <class Number>
bool read(const Word& word, Number& number) {
  const char* end = word.text.data() + word.text.size();
  const auto [stop, error] = std::from_chars(word.text.data(), end, number);
  return error == std::errc{} && stop == end;
}

class MachineParser {
 public:
  MachineParser(std::string_view text, const PresetLookup& lookup) : text_(text), lookup_(lookup) {
    next();
  }

  Result<Machine> run() {
    std::uint32_t count = 1;
    TUTTI_TRY(count_of_hosts(count));
    const Word name = word_;
    if (name.text.empty()) return unexpected(name, "a host; presets are " + known(true));
    TUTTI_ASSIGN(const Preset preset, look_up());
    if (preset.host() == nullptr)
      return unexpected(name, "a host, but this is a fabric; hosts are " + known(true));
    Machine machine{*preset.host(), std::nullopt, {}};
    if (word_.text == "over")
      TUTTI_TRY(fabric(machine, count));
    else if (count > 1)
      return unexpected(word_, fmt::format("`over` and a fabric that joins the {} hosts", count));
    while (word_.text == "with") TUTTI_TRY(slow(machine));
    if (!word_.text.empty())
      return unexpected(word_, machine.fabric ? "`with`, or the end" : "`over`, `with` or the end");
    return machine;
  }

 private:
  /// Makes word_ the next one, empty at the end.
  void next() {
    const std::size_t start = std::min(text_.find_first_not_of(kBlanks, end_), text_.size());
    end_ = std::min(text_.find_first_of(kBlanks, start), text_.size());
    word_ = {text_.substr(start, end_ - start), start};
  }

  Status count_of_hosts(std::uint32_t& count) {
    const std::string_view digits =
        word_.text.substr(0, word_.text.find_first_not_of("0123456789"));
    if (digits.empty() || word_.text.substr(digits.size()) != "x") return ok_status();
    if (!read(Word{digits}, count) || count < 1 || count > kMostFabricHosts)
      return unexpected(word_, fmt::format("a number of hosts from 1 to {}", kMostFabricHosts));
    next();
    return ok_status();
  }

  /// Names of the library's presets of one kind, for messages.
  [[nodiscard]] static std::string known(bool hosts) {
    std::string names;
    for (const std::string& name : preset_names()) {
      const auto preset = builtin_preset(name);
      if (preset && (preset->host() != nullptr) == hosts)
        names += (names.empty() ? "" : ", ") + name;
    }
    return names;
  }

  Result<Preset> look_up() {
    const Word name = word_;
    auto preset = lookup_(name.text);
    if (!preset) return at(name, preset.error());
    next();
    return preset;
  }

  Status fabric(Machine& machine, std::uint32_t count) {
    next();
    Word settings = word_;
    const bool is_set = settings.text.find(':') != settings.text.npos;
    const Word name = split_off(settings, ':');
    if (name.text.empty()) return unexpected(name, "a fabric: " + known(false));
    const auto preset = lookup_(name.text);
    if (!preset) return at(name, preset.error());
    if (preset->fabric() == nullptr)
      return unexpected(name, "a fabric, but this is a host; fabrics are " + known(false));
    FabricShape shape = *preset->fabric();
    shape.hosts = count;
    std::vector<std::string_view> seen;
    for (bool more = is_set; more;) {
      const std::size_t before = settings.text.size();
      const Word one = split_off(settings, ',');
      more = one.text.size() < before;
      TUTTI_TRY(setting(shape, one, seen));
    }
    if (const Status checked = check(shape); !checked) return at(name, checked.error());
    machine.fabric = std::move(shape);
    next();
    return ok_status();
  }

  static Status setting(FabricShape& shape, Word text, std::vector<std::string_view>& seen) {
    const Word whole = text;
    const Word key = split_off(text, '=');
    std::vector<std::string> names;
    std::string expected;
    for (const FabricParameter& parameter : fabric_parameters()) {
      if (!parameter.belongs_to(shape.kind)) continue;
      if (parameter.name != key.text) {
        names.emplace_back(parameter.name);
        expected += (expected.empty() ? "" : ", ") + names.back();
        continue;
      }
      if (key.text.size() == whole.text.size())
        return unexpected({"", whole.at + whole.text.size()}, "`=`");
      if (std::ranges::find(seen, key.text) != seen.end())
        return unexpected(key, "each setting once");
      seen.push_back(key.text);
      return value(shape, parameter, text);
    }
    const std::string meant = nearest(key.text, names);
    return unexpected(key,
                      fmt::format("one of {}{}", expected,
                                  meant.empty() ? "" : fmt::format("; did you mean {}?", meant)));
  }

  static Status value(FabricShape& shape, const FabricParameter& parameter, Word text) {
    const auto wrong = [&](std::string_view what) {
      return unexpected(text, fmt::format("{} from {:g} to {:g}: {}", what, parameter.least,
                                          parameter.most, parameter.meaning));
    };
    const auto in_range = [&](double number) {
      return number >= parameter.least && number <= parameter.most;
    };
    if (const auto* number = std::get_if<double FabricShape::*>(&parameter.member))
      return read(text, shape.**number) && in_range(shape.**number) ? ok_status()
                                                                    : Status(wrong("a number"));
    if (const auto* count = std::get_if<std::uint32_t FabricShape::*>(&parameter.member))
      return read(text, shape.**count) && in_range(shape.**count) ? ok_status()
                                                                  : Status(wrong("a whole number"));
    auto& list = shape.*std::get<std::vector<std::uint32_t> FabricShape::*>(parameter.member);
    list.clear();
    for (Word rest = text; list.empty() || !rest.text.empty();) {
      const Word length = split_off(rest, 'x');
      list.push_back(0);
      if (!read(length, list.back()) || !in_range(list.back()) || list.size() > kMostFabricSizes)
        return wrong("whole numbers such as 4x4, each");
    }
    return text.text.ends_with('x') ? Status(wrong("whole numbers such as 4x4, each"))
                                    : ok_status();
  }

  Status slow(Machine& machine) {
    Machine::Slow made;
    next();
    TUTTI_TRY(nodes(made.links.node));
    if (word_.text == "to") {
      next();
      TUTTI_TRY(nodes(made.links.other));
    }
    if (word_.text != "at") return unexpected(word_, "`at` and a factor, or `to` and other nodes");
    next();
    if (!read(word_, made.factor) || !(made.factor >= 0 && made.factor <= 1))
      return unexpected(word_, "a factor from 0 to 1");
    next();
    machine.slow.push_back(std::move(made));
    return ok_status();
  }

  Status nodes(std::string& name) {
    if (word_.text.empty()) return unexpected(word_, "nodes, such as leaf3 or h0/nic*");
    name = word_.text;
    next();
    return ok_status();
  }

  std::string_view text_;
  const PresetLookup& lookup_;
  std::size_t end_ = 0;  // of word_
  Word word_;
};

}  // namespace

Result<Machine> parse_machine(std::string_view text, const PresetLookup& lookup) {
  if (text.size() > kLongestMachineText)
    return make_error(Code::kInvalidArgument,
                      "{} characters are too many to describe a machine: at most {}", text.size(),
                      kLongestMachineText);
  return MachineParser(text, lookup).run();
}

Result<Topology> build(const Machine& machine) {
  std::optional<Topology> topology = machine.host;
  if (machine.fabric) {
    TUTTI_ASSIGN(topology, join(machine.host, *machine.fabric));
  }
  for (const auto& [links, factor] : machine.slow) {
    TUTTI_ASSIGN(topology, degraded(*topology, links, factor));
  }
  return *std::move(topology);
}

Result<Topology> machine_topology(std::string_view text) {
  TUTTI_ASSIGN(const Machine machine, parse_machine(text));
  return build(machine);
}

}  // namespace tutti::topo
