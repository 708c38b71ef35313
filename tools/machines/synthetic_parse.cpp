// The parser of tools/machines/synthetic.hpp.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/nearest.hpp"
#include "src/base/result.hpp"
#include "src/topo/model/bandwidths.hpp"
#include "src/topo/model/words.hpp"
#include "tools/machines/synthetic.hpp"

namespace tutti::topo {
namespace {

using Shape = Synthetic::Shape;

constexpr double kWidest = 1e6;   // GB/s
constexpr double kSlowest = 1e6;  // microseconds

struct ShapeName {
  std::string_view name;
  Shape shape;
  std::size_t most_sizes;
  std::string_view text, title;
};
constexpr std::array kShapes = {
    ShapeName{"gpu", Shape::kGpu, 2, "gpu:HOSTSxGPUS", "hosts of GPUs on an NVSwitch, with NICs"},
    ShapeName{"cpu", Shape::kCpu, 2, "cpu:HOSTSxRANKS", "hosts of ranks around one memory"},
    ShapeName{"tofino", Shape::kTofino, 1, "tofino:HOSTS",
              "hosts of one rank on a switch that adds in slots"},
    ShapeName{"ring", Shape::kRing, 1, "ring:N", "GPUs, each joined with the next"},
    ShapeName{"torus", Shape::kTorus, 3, "torus:XxYxZ",
              "GPUs in a grid of up to three dimensions, which wraps around"},
    ShapeName{"mesh", Shape::kMesh, 3, "mesh:XxYxZ", "the same without the wrap-around"},
};

bool has_hosts(Shape shape) {
  return shape == Shape::kGpu || shape == Shape::kCpu || shape == Shape::kTofino;
}

enum class Value : std::uint8_t { kBandwidth, kBandwidthOrNone, kLatency, kCount, kFabric };
struct Key {
  std::string_view name;
  std::string_view meaning;
  Value value;
  bool gpu, cpu, others;  // the shapes that have it
  double Synthetic::* number = nullptr;
  std::uint32_t Synthetic::* count = nullptr;
  std::uint32_t least = 0, most = 0;  // of a count
  bool tofino = false;
};
constexpr std::array kKeys = {
    Key{"net", "GB/s of a NIC: 50, of cpu and tofino 12.5", Value::kBandwidth, true, true, false,
        &Synthetic::network, nullptr, 0, 0, true},
    Key{"nics", "of a host: one for each GPU, of cpu 1", Value::kCount, true, true, false, nullptr,
        &Synthetic::nics, 1, kMostSyntheticNics},
    Key{"fabric", "rails: NIC i of every host on switch i; switch: all on one", Value::kFabric,
        true, true, false},
    Key{"spines", "switches that join the rails, together as wide as all NICs: 1", Value::kCount,
        true, true, false, nullptr, &Synthetic::spines, 0, kMostSyntheticSpines},
    Key{"nvlink", "GB/s of a GPU to the NVSwitch, 0 for none: 450", Value::kBandwidthOrNone, true,
        false, false, &Synthetic::nvlink},
    Key{"pci", "GB/s of a PCI link: 48", Value::kBandwidth, true, false, false, &Synthetic::pci},
    Key{"system", "GB/s between the two CPUs: 22", Value::kBandwidth, true, false, false,
        &Synthetic::system},
    Key{"memory", "GB/s of a rank to the memory of its host: 10, of tofino 25", Value::kBandwidth,
        false, true, false, &Synthetic::memory, nullptr, 0, 0, true},
    Key{"link", "GB/s between neighbours: 50", Value::kBandwidth, false, false, true,
        &Synthetic::link},
    Key{"latency", "us of a link between NIC and switch: 0.6, of tofino 4.5; between neighbours: 1",
        Value::kLatency, true, true, true, &Synthetic::latency, nullptr, 0, 0, true},
    Key{"nvls", "1: NVSwitches add and copy for groups: 0", Value::kCount, true, false, false,
        nullptr, &Synthetic::nvls, 0, 1},
    Key{"sharp", "groups for which a network switch adds at a time: 0", Value::kCount, true, true,
        false, nullptr, &Synthetic::sharp, 0, kMostSyntheticGroups},
    Key{"slots", "packets that the switch keeps: 128", Value::kCount, false, false, false, nullptr,
        &Synthetic::slots, 1, kMostSyntheticSlots, true},
    Key{"packet", "bytes of a packet: 1024", Value::kCount, false, false, false, nullptr,
        &Synthetic::packet, 1, kMostSyntheticPacket, true},
};

bool has(Shape shape, const Key& key) {
  switch (shape) {
    case Shape::kGpu:
      return key.gpu;
    case Shape::kCpu:
      return key.cpu;
    case Shape::kTofino:
      return key.tofino;
    default:
      return key.others;
  }
}

struct Unit {
  std::string_view name;
  double factor;
};
constexpr std::array kBandwidthUnits = {Unit{"", 1}, Unit{"GB/s", 1}, Unit{"MB/s", 1e-3},
                                        Unit{"Gb/s", 0.125}, Unit{"Mb/s", 0.125e-3}};
constexpr std::array kLatencyUnits = {Unit{"", 1}, Unit{"us", 1}, Unit{"ns", 1e-3},
                                      Unit{"ms", 1e3}};

class SyntheticParser {
 public:
  explicit SyntheticParser(std::string_view text) : text_(text) {}

  Result<Synthetic> run() && {
    TUTTI_TRY(shape());
    TUTTI_TRY(sizes());
    set_defaults();
    if (accept('@')) TUTTI_TRY(value(key_named(has_hosts(made_.shape) ? "net" : "link")));
    std::vector<std::string_view> seen;
    while (accept(',')) TUTTI_TRY(setting(seen));
    if (at_ < text_.size()) return unexpected("`,` and a setting, or the end");
    if (has_hosts(made_.shape) && std::uint64_t{made_.sizes[0]} * made_.nics > kMostSyntheticRanks)
      return make_error(Code::kInvalidArgument,
                        "{} NICs on each of {} hosts are too many: at most "
                        "{} together",
                        made_.nics, made_.sizes[0], kMostSyntheticRanks);
    return std::move(made_);
  }

 private:
  [[nodiscard]] std::string_view rest() const { return text_.substr(at_); }

  /// An error where the parser stands.
  [[nodiscard]] Error unexpected(std::string_view expected) const {
    return make_error(Code::kInvalidArgument, "column {}: found {}, expected {}", at_ + 1,
                      rest().empty() ? "the end" : shown(rest()), expected);
  }

  bool accept(char c) {
    if (!rest().starts_with(c)) return false;
    ++at_;
    return true;
  }

  /// The letters and slashes that come next; not taken yet.
  [[nodiscard]] std::string_view word() const {
    const auto is_part = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '/';
    };
    const auto end = std::ranges::find_if_not(rest(), is_part);
    return rest().substr(0, static_cast<std::size_t>(end - rest().begin()));
  }

  Status shape() {
    std::vector<std::string> names;
    for (const ShapeName& known : kShapes) {
      names.emplace_back(known.name);
      if (word() != known.name) continue;
      made_.shape = known.shape;
      most_sizes_ = known.most_sizes;
      at_ += known.name.size();
      return accept(':') ? ok_status() : Status(unexpected("`:`"));
    }
    return unknown("one of gpu, cpu, tofino, ring, torus and mesh", names);
  }

  /// An error for a word that is none of `names`.
  [[nodiscard]] Error unknown(std::string_view expected, std::span<const std::string> names) const {
    const std::string meant = nearest(word(), names);
    return unexpected(fmt::format("{}{}", expected,
                                  meant.empty() ? "" : fmt::format("; did you mean {}?", meant)));
  }

  Status sizes() {
    std::uint64_t ranks = 1;
    const std::size_t start = at_;
    do {
      if (made_.sizes.size() == most_sizes_)
        return unexpected(fmt::format("no more than {} numbers", most_sizes_));
      TUTTI_ASSIGN(const std::uint32_t size, count(1, kMostSyntheticRanks));
      made_.sizes.push_back(size);
      ranks *= size;  // three at most, of 16 bits
    } while (accept('x'));
    if (made_.shape == Shape::kTofino) made_.sizes.push_back(1);
    if (has_hosts(made_.shape) && made_.sizes.size() == 1)
      made_.sizes.insert(made_.sizes.begin(), 1);
    if (ranks <= kMostSyntheticRanks) return ok_status();
    return make_error(Code::kInvalidArgument, "column {}: {} ranks are too many: at most {}",
                      start + 1, ranks, kMostSyntheticRanks);
  }

  void set_defaults() {
    const bool gpu = made_.shape == Shape::kGpu;
    made_.network = gpu ? 50 : 12.5;
    made_.nics = gpu ? std::min(made_.sizes[1], kMostSyntheticNics) : 1;
    made_.latency = has_hosts(made_.shape) ? assumed_latency(LinkKind::kNetwork) : 1;
    if (made_.shape != Shape::kTofino) return;
    made_.fabric = Synthetic::Fabric::kSwitch;
    made_.memory = 25;
    made_.latency = 4.5;
  }

  [[nodiscard]] static const Key& key_named(std::string_view name) {
    return *std::ranges::find(kKeys, name, &Key::name);
  }

  Status setting(std::vector<std::string_view>& seen) {
    std::vector<std::string> names;
    for (const Key& key : kKeys) {
      if (!has(made_.shape, key)) continue;
      names.emplace_back(key.name);
      if (word() != key.name) continue;
      if (std::ranges::find(seen, key.name) != seen.end()) return unexpected("each setting once");
      seen.push_back(key.name);
      at_ += key.name.size();
      if (!accept('=')) return unexpected("`=`");
      return value(key);
    }
    std::string expected;
    for (const std::string& name : names) expected += (expected.empty() ? "" : ", ") + name;
    return unknown("one of " + expected, names);
  }

  Status value(const Key& key) {
    switch (key.value) {
      case Value::kBandwidth:
        return quantity(made_.*key.number, "a bandwidth", kBandwidthUnits, 1e-6, kWidest);
      case Value::kBandwidthOrNone:
        return quantity(made_.*key.number, "a bandwidth", kBandwidthUnits, 0, kWidest);
      case Value::kLatency:
        return quantity(made_.*key.number, "a latency", kLatencyUnits, 0, kSlowest);
      case Value::kCount: {
        TUTTI_ASSIGN(made_.*key.count, count(key.least, key.most));
        return ok_status();
      }
      case Value::kFabric:
        return fabric();
    }
    return ok_status();
  }

  Result<std::uint32_t> count(std::uint32_t least, std::uint32_t most) {
    std::uint32_t count = 0;
    const auto [end, error] = std::from_chars(rest().begin(), rest().end(), count);
    if (error != std::errc{} || count < least || count > most)
      return unexpected(fmt::format("a number from {} to {}", least, most));
    at_ = static_cast<std::size_t>(end - text_.begin());
    return count;
  }

  Status quantity(double& value, std::string_view what, std::span<const Unit> units, double least,
                  double most) {
    const std::size_t start = at_;
    double number = 0;
    const auto [end, error] =
        std::from_chars(rest().begin(), rest().end(), number, std::chars_format::fixed);
    if (error == std::errc{}) at_ = static_cast<std::size_t>(end - text_.begin());
    const auto unit = std::ranges::find(units, word(), &Unit::name);
    const double scaled = unit == units.end() ? 0 : number * unit->factor;
    if (error == std::errc{} && unit != units.end() && scaled >= least && scaled <= most) {
      at_ += unit->name.size();
      value = scaled;
      return ok_status();
    }
    at_ = start;
    std::string names;
    for (const Unit& known : units.subspan(1))
      names += (names.empty() ? "" : ", ") + std::string(known.name);
    return unexpected(fmt::format("{} from {} to {} {}, its unit one of {}", what, least, most,
                                  units[1].name, names));
  }

  Status fabric() {
    if (word() == "rails")
      made_.fabric = Synthetic::Fabric::kRails;
    else if (word() == "switch")
      made_.fabric = Synthetic::Fabric::kSwitch;
    else
      return unexpected("rails or switch");
    at_ += word().size();
    return ok_status();
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t most_sizes_ = 0;
  Synthetic made_;
};

}  // namespace

std::vector<SyntheticForm> synthetic_forms() {
  std::vector<SyntheticForm> forms;
  for (const ShapeName& shape : kShapes) {
    SyntheticForm& form = forms.emplace_back(SyntheticForm{shape.text, shape.title, {}});
    for (const Key& key : kKeys)
      if (has(shape.shape, key)) form.parameters.push_back(key.name);
  }
  return forms;
}

std::vector<SyntheticParameter> synthetic_parameters() {
  std::vector<SyntheticParameter> parameters;
  for (const Key& key : kKeys) parameters.push_back({key.name, key.meaning});
  return parameters;
}

Result<Synthetic> parse_synthetic(std::string_view text) { return SyntheticParser(text).run(); }

}  // namespace tutti::topo
