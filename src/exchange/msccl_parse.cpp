// From XML to numbers: every value is checked for itself, and errors name the element's place.
#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include <pugixml.hpp>

#include "src/base/result.hpp"
#include "src/exchange/collective_names.hpp"
#include "src/exchange/foreign.hpp"
#include "src/exchange/msccl_algo.hpp"

namespace tutti::exchange {
namespace {

constexpr std::int64_t kMostBlocks = 1024;  // of a gpu; MSCCL has 216, RCCL 64
constexpr std::int64_t kMostChannels = 1024;
constexpr std::int64_t kMostChunks = std::int64_t{1} << 22;
constexpr std::size_t kMostNotes = 16;

/// An element, and how errors name it: "line 3 column 5: gpu 0 tb 1 step 2".
class Element {
 public:
  Element(pugi::xml_node node, std::string_view text, std::string name)
      : node_(node), text_(text), name_(std::move(name)) {}

  [[nodiscard]] std::size_t offset() const {
    return static_cast<std::size_t>(std::max<std::ptrdiff_t>(node_.offset_debug(), 0));
  }
  [[nodiscard]] Error wrong(std::string_view what) const {
    return make_error(Code::kInvalidArgument, "{}: {}: {}", place_in(text_, offset()), name_, what);
  }
  [[nodiscard]] Error unsupported(std::string_view what) const {
    return make_error(Code::kUnsupported, "{}: {}: {}", place_in(text_, offset()), name_, what);
  }
  [[nodiscard]] std::string_view word(const char* key) const {
    return node_.attribute(key).as_string();
  }
  [[nodiscard]] bool has(const char* key) const { return !node_.attribute(key).empty(); }

  [[nodiscard]] std::string_view tag() const { return node_.name(); }

  Result<std::int64_t> number(const char* key, std::int64_t first, std::int64_t last) const {
    const std::string_view digits = word(key);
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool valid = has(key) && error == std::errc{} && end == digits.data() + digits.size() &&
                       value >= first && value <= last;
    if (valid) return value;
    return wrong(fmt::format("{} from {} to {} was expected, found {}", key, first, last,
                             has(key) ? shown(digits) : "none"));
  }
  Result<std::int64_t> number_or(const char* key, std::int64_t otherwise, std::int64_t first,
                                 std::int64_t last) const {
    if (!has(key)) return otherwise;
    return number(key, first, last);
  }

  /// Calls visit(Element) for each child that is a `tag`, and skip(Element) for each other one.
  template <class Visit, class Skip>
  Status for_each(std::string_view tag, Visit&& visit, Skip&& skip) const {
    std::size_t number = 0;
    for (const pugi::xml_node child : node_.children()) {
      if (child.type() != pugi::node_element) continue;
      if (tag != child.name()) {
        skip(Element(child, text_, name_));
        continue;
      }
      const bool is_outermost = name_ == "algo";
      TUTTI_TRY(visit(Element(
          child, text_, fmt::format("{}{} {}", is_outermost ? "" : name_ + " ", tag, number++))));
    }
    return ok_status();
  }

 private:
  pugi::xml_node node_;
  std::string_view text_;
  std::string name_;
};

struct TypeName {
  std::string_view name;
  MscclType type;
};

constexpr TypeName kTypeNames[] = {
    {"s", MscclType::kSend},
    {"r", MscclType::kRecv},
    {"cpy", MscclType::kCopy},
    {"re", MscclType::kReduce},
    {"rcs", MscclType::kRecvCopySend},
    {"rrs", MscclType::kRecvReduceSend},
    {"rrc", MscclType::kRecvReduceCopy},
    {"rrcs", MscclType::kRecvReduceCopySend},
    {"nop", MscclType::kNop},
};

std::optional<MscclType> type_of(std::string_view name) {
  for (const TypeName& each : kTypeNames)
    if (each.name == name) return each.type;
  return std::nullopt;
}

std::string all_types() {
  std::string text;
  for (const TypeName& each : kTypeNames) text += fmt::format(" {}", each.name);
  return text;
}

class MscclParser {
 public:
  explicit MscclParser(std::string_view text) : text_(text) {}

  Result<MscclAlgo> run(pugi::xml_node root) && {
    const Element algo(root, text_, "algo");
    if (std::string_view(root.name()) != "algo")
      return algo.wrong(fmt::format("<algo> was expected, found {}", shown(root.name())));
    TUTTI_TRY(header(algo));
    TUTTI_TRY(for_each(algo, "gpu", [&](const Element& element) { return gpu(element); }));
    if (gpus_read_ != algo_.gpus.size())
      return algo.wrong(fmt::format("ngpus is {}, and there are {} <gpu> elements",
                                    algo_.gpus.size(), gpus_read_));
    for (const auto& [tag, skipped] : skipped_)
      algo_.skipped.push_back(fmt::format("{}: {} has no meaning here and is skipped ({} in all)",
                                          place_in(text_, skipped.first), tag, skipped.count));
    return std::move(algo_);
  }

 private:
  struct Skipped {
    std::size_t first = 0;  ///< where in the text
    std::size_t count = 0;
  };

  /// MSCCL reads no other elements either.
  template <class Visit>
  Status for_each(const Element& parent, std::string_view tag, Visit&& visit) {
    return parent.for_each(tag, std::forward<Visit>(visit), [&](const Element& other) {
      const std::string name = shown(fmt::format("<{}>", other.tag()));
      if (skipped_.size() == kMostNotes && !skipped_.contains(name)) return;
      Skipped& skipped = skipped_[name];
      if (skipped.count++ == 0) skipped.first = other.offset();
    });
  }
  Status header(const Element& algo);
  Status purposes(const Element& algo, std::int64_t chunks);
  Status layout(const Element& algo);
  Status placement(const Element& algo);
  Status protocol(const Element& algo);
  Status gpu(const Element& element);
  Status block(const Element& element, MscclGpu& gpu);
  Status step(const Element& element, MscclBlock& block);
  Status dependency(const Element& element, MscclStep& step) const;
  Result<Run> run_of(const Element& element, const char* buffer, const char* offset,
                     std::int64_t count) const;
  [[nodiscard]] std::int64_t last_rank() const {
    return static_cast<std::int64_t>(algo_.gpus.size()) - 1;
  }

  std::string_view text_;
  MscclAlgo algo_;
  std::vector<bool> seen_;
  std::map<std::string, Skipped> skipped_;  // by tag
  std::size_t gpus_read_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t named_ = 0;
};

Status MscclParser::header(const Element& algo) {
  algo_.name = plain_name(algo.word("name"));
  TUTTI_ASSIGN(const std::int64_t ranks, algo.number("ngpus", 1, kMostRanks));
  algo_.gpus.resize(static_cast<std::size_t>(ranks));
  seen_.resize(algo_.gpus.size());
  TUTTI_ASSIGN(const std::int64_t chunks, algo.number("nchunksperloop", 1, kMostChunks));
  TUTTI_TRY(purposes(algo, chunks));
  TUTTI_ASSIGN(const std::int64_t channels, algo.number("nchannels", 1, kMostChannels));
  algo_.channels = static_cast<int>(channels);
  TUTTI_TRY(protocol(algo));
  TUTTI_TRY(layout(algo));
  return placement(algo);
}

/// No attribute says what a custom collective does. Those that do most come first: each all-reduce
/// is a reduce as well.
Status MscclParser::purposes(const Element& algo, std::int64_t chunks) {
  const std::string_view name = algo.word("coll");
  std::vector<Collective> collectives;
  if (const auto named = collective_of(name))
    collectives = {*named};
  else if (name == "custom")
    collectives = {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
                   Collective::kAllToAll,  Collective::kBroadcast, Collective::kReduce,
                   Collective::kGather,    Collective::kScatter};
  else
    return algo.unsupported(
        fmt::format("the collective {} has no counterpart here; there are:{} custom", shown(name),
                    all_collective_names()));
  for (const Collective collective : collectives) {
    const std::int64_t blocks = ir::largest_block_count(
        {.collective = collective, .ranks = static_cast<std::int32_t>(algo_.gpus.size())});
    if (chunks % blocks == 0)
      algo_.purposes.push_back({collective, static_cast<std::uint32_t>(chunks / blocks)});
    else if (name != "custom")
      return algo.wrong(fmt::format("nchunksperloop is {}; a multiple of the {} ranks was expected",
                                    chunks, blocks));
  }
  return ok_status();
}

Status MscclParser::protocol(const Element& algo) {
  const std::string_view name = algo.word("proto");
  if (name != "Simple" && name != "LL" && name != "LL128")
    return algo.wrong(fmt::format("proto Simple, LL or LL128 was expected, found {}", shown(name)));
  constexpr std::uint32_t kSimpleDepth = 2, kLowLatencyDepth = 8;
  algo_.fifo_depth = name == "Simple" ? kSimpleDepth : kLowLatencyDepth;
  return ok_status();
}

Status MscclParser::layout(const Element& algo) {
  Result<ir::Layout> layout = ir::parse_layout(algo.word("tutti_layout"));
  if (!layout) return algo.wrong(fmt::format("tutti_layout: {}", layout.error().what));
  const Status fits = check(*layout, static_cast<std::int32_t>(algo_.gpus.size()));
  if (!fits) return algo.wrong(fmt::format("tutti_layout: {}", fits.error().what));
  algo_.layout = *std::move(layout);
  return ok_status();
}

Status MscclParser::placement(const Element& algo) {
  TUTTI_ASSIGN(const std::int64_t in_place, algo.number_or("inplace", 0, 0, 1));
  TUTTI_ASSIGN(const std::int64_t out_of_place, algo.number_or("outofplace", 1 - in_place, 0, 1));
  algo_.in_place = in_place == 1;
  algo_.out_of_place = out_of_place == 1;
  if (!algo_.in_place && !algo_.out_of_place)
    return algo.wrong("inplace and outofplace are both 0; at least one 1 was expected");
  const bool is_all_to_all =
      algo_.purposes.size() == 1 && algo_.purposes[0].collective == Collective::kAllToAll;
  if (algo_.in_place && is_all_to_all)
    return algo.unsupported("an all-to-all in place is not defined here; inplace 0 was expected");
  if (algo_.in_place)
    std::erase_if(algo_.purposes, [](const MscclPurpose& purpose) {
      return purpose.collective == Collective::kAllToAll;
    });
  return ok_status();
}

Status MscclParser::gpu(const Element& element) {
  TUTTI_ASSIGN(const std::int64_t id, element.number("id", 0, last_rank()));
  const auto rank = static_cast<std::size_t>(id);
  if (seen_[rank]) return element.wrong(fmt::format("there are two gpus of id {}", id));
  seen_[rank] = true;
  ++gpus_read_;
  MscclGpu& gpu = algo_.gpus[rank];
  TUTTI_ASSIGN(const std::int64_t inputs, element.number("i_chunks", 0, kMostChunks));
  TUTTI_ASSIGN(const std::int64_t outputs, element.number("o_chunks", 0, kMostChunks));
  TUTTI_ASSIGN(const std::int64_t scratch, element.number("s_chunks", 0, kMostChunks));
  gpu.sizes = {static_cast<std::uint64_t>(inputs), static_cast<std::uint64_t>(outputs),
               static_cast<std::uint64_t>(scratch)};
  return for_each(element, "tb", [&](const Element& tb) { return block(tb, gpu); });
}

Status MscclParser::block(const Element& element, MscclGpu& gpu) {
  const auto number = static_cast<std::int64_t>(gpu.blocks.size());
  if (number >= kMostBlocks)
    return element.wrong(fmt::format("a gpu has at most {} thread blocks", kMostBlocks));
  TUTTI_TRY(element.number("id", number, number));
  MscclBlock& block = gpu.blocks.emplace_back();
  block.offset = element.offset();
  TUTTI_ASSIGN(const std::int64_t send, element.number("send", -1, last_rank()));
  TUTTI_ASSIGN(const std::int64_t recv, element.number("recv", -1, last_rank()));
  TUTTI_ASSIGN(const std::int64_t channel, element.number("chan", 0, algo_.channels - 1));
  block.send = static_cast<Rank>(send);
  block.recv = static_cast<Rank>(recv);
  block.channel = static_cast<int>(channel);
  return for_each(element, "step", [&](const Element& each) { return step(each, block); });
}

Status MscclParser::step(const Element& element, MscclBlock& block) {
  if (++steps_ > kMostSteps)
    return element.wrong(fmt::format("at most {} steps in all were expected", kMostSteps));
  const auto number = static_cast<std::int64_t>(block.steps.size());
  TUTTI_TRY(element.number("s", number, number));
  const std::string_view name = element.word("type");
  const auto type = type_of(name);
  if (!type)
    return element.unsupported(fmt::format("the step type {} has no counterpart here; there are:{}",
                                           shown(name), all_types()));
  MscclStep& step = block.steps.emplace_back();
  step.type = *type;
  step.offset = element.offset();
  if (sends(*type) && block.send == kNoRank)
    return element.wrong(fmt::format("{} sends, and its thread block has send=\"-1\"", name));
  if (receives(*type) && block.recv == kNoRank)
    return element.wrong(fmt::format("{} receives, and its thread block has recv=\"-1\"", name));
  TUTTI_TRY(dependency(element, step));
  if (*type == MscclType::kNop) return ok_status();
  TUTTI_ASSIGN(const std::int64_t count, element.number("cnt", 1, kMostChunks));
  named_ += static_cast<std::uint64_t>(count);
  if (named_ > kMostNamed)
    return element.wrong(fmt::format("all steps name more than {} chunks", kMostNamed));
  if (reads_src(*type)) {
    TUTTI_ASSIGN(step.src, run_of(element, "srcbuf", "srcoff", count));
  }
  if (writes_dst(*type)) {
    TUTTI_ASSIGN(step.dst, run_of(element, "dstbuf", "dstoff", count));
  }
  return ok_status();
}

Status MscclParser::dependency(const Element& element, MscclStep& step) const {
  TUTTI_ASSIGN(const std::int64_t block, element.number_or("depid", -1, -1, kMostBlocks - 1));
  TUTTI_ASSIGN(const std::int64_t after,
               element.number_or("deps", -1, -1, static_cast<std::int64_t>(kMostSteps)));
  TUTTI_ASSIGN(const std::int64_t waited_for, element.number_or("hasdep", 0, 0, 1));
  if ((block < 0) != (after < 0))
    return element.wrong("depid and deps name a step together, or are both -1");
  step.after_block = static_cast<int>(block);
  step.after_step = static_cast<int>(after);
  step.waited_for = waited_for == 1;
  return ok_status();
}

Result<Run> MscclParser::run_of(const Element& element, const char* buffer, const char* offset,
                                std::int64_t count) const {
  const std::string_view name = element.word(buffer);
  constexpr std::string_view kBuffers = "ios";
  if (name.size() != 1 || kBuffers.find(name) == std::string_view::npos)
    return element.wrong(fmt::format("{} i, o or s was expected, found {}", buffer, shown(name)));
  TUTTI_ASSIGN(const std::int64_t first, element.number(offset, 0, kMostChunks));
  return Run{static_cast<ir::Space>(kBuffers.find(name)), static_cast<std::uint32_t>(first),
             static_cast<std::uint32_t>(count)};
}

}  // namespace

Result<MscclAlgo> parse_msccl_xml(std::string_view text) {
  if (text.size() > kLargestText)
    return make_error(Code::kInvalidArgument, "the file has {} bytes; at most {} were expected",
                      text.size(), kLargestText);
  pugi::xml_document document;
  const pugi::xml_parse_result parsed =
      document.load_buffer(text.data(), text.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!parsed)
    return make_error(
        Code::kInvalidArgument, "{}: this is no XML: {}",
        place_in(text, static_cast<std::size_t>(std::max<std::ptrdiff_t>(parsed.offset, 0))),
        parsed.description());
  return MscclParser(text).run(document.document_element());
}

}  // namespace tutti::exchange
