// The parser of src/ir/text.hpp. The text is split into lines and the lines into words first, so
// that everything after works on a word with a place to name in errors.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/result.hpp"
#include "src/ir/text.hpp"

namespace tutti::ir {
namespace {

// Limits on what a file may ask for, since its numbers become memory. docs/formats.md names them.
constexpr std::uint64_t kMostRanks = 65536;
constexpr std::uint64_t kMostSteps = std::uint64_t{1} << 20;    // of one rank
constexpr std::uint64_t kMostChunks = std::uint64_t{1} << 24;   // chunk numbers are below it
constexpr std::uint64_t kMostScratch = std::uint64_t{1} << 25;  // chunks, over all ranks
constexpr std::size_t kLongestName = 64;

struct Word {
  std::string_view text;
  std::size_t column = 1;
};

/// A word fit to be shown in one line of text.
std::string quoted(std::string_view word) {
  constexpr std::size_t kMostShown = 40;
  std::string shown = "`";
  for (const char c : word.substr(0, kMostShown))
    shown += c >= ' ' && c <= '~' ? std::string(1, c)
                                  : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return shown + (word.size() > kMostShown ? "...`" : "`");
}

std::optional<std::uint64_t> to_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Removes `text` up to the separator and returns it; nullopt when the separator is not there.
std::optional<std::string_view> take_until(std::string_view& text, std::string_view separator) {
  const std::size_t at = text.find(separator);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view head = text.substr(0, at);
  text.remove_prefix(at + separator.size());
  return head;
}

/// The words of one line, read from left to right.
class Line {
 public:
  Line() = default;
  Line(std::string_view text, std::size_t number) : number_(number) {
    constexpr std::string_view kBlank = " \t\r";
    text = text.substr(0, text.find('#'));
    end_column_ = text.size() + 1;
    for (std::size_t at = text.find_first_not_of(kBlank); at != std::string_view::npos;) {
      const std::size_t end = std::min(text.find_first_of(kBlank, at), text.size());
      words_.push_back({text.substr(at, end - at), at + 1});
      at = text.find_first_not_of(kBlank, end);
    }
  }

  [[nodiscard]] bool blank() const { return words_.empty(); }
  [[nodiscard]] bool done() const { return next_ == words_.size(); }
  [[nodiscard]] std::string_view peek() const { return done() ? "" : words_[next_].text; }
  void skip() { ++next_; }

  /// An error at the next word: found that, `expected` was expected.
  [[nodiscard]] Error unexpected(std::string_view expected) const {
    return make_error(Code::kInvalidArgument, "line {} column {}: found {}, expected {}", number_,
                      done() ? end_column_ : words_[next_].column,
                      done() ? "the end of the line" : quoted(words_[next_].text), expected);
  }

  Status keyword(std::string_view word) {
    if (done() || peek() != word) return unexpected(quoted(word));
    skip();
    return ok_status();
  }
  Result<std::uint64_t> number(std::string_view what, std::uint64_t first, std::uint64_t limit) {
    const auto value = to_number(peek());
    if (!value || *value < first || *value >= limit)
      return unexpected(fmt::format("{} from {} to {}", what, first, limit - 1));
    skip();
    return *value;
  }
  Status end() const { return done() ? ok_status() : unexpected("the end of the line"); }

 private:
  std::vector<Word> words_;
  std::size_t next_ = 0;
  std::size_t number_ = 0;
  std::size_t end_column_ = 1;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) { advance(); }

  Result<Schedule> run() && {
    TUTTI_TRY(header());
    const auto ranks = static_cast<std::uint64_t>(schedule_.request.ranks);
    for (std::uint64_t rank = 0; rank < ranks; ++rank) TUTTI_TRY(program(rank));
    if (!line_.blank()) return line_.unexpected("the end of the text after the last rank");
    return std::move(schedule_);
  }

 private:
  /// Moves to the next line with words; at the end of the text line_ is blank.
  void advance() {
    do {
      ++number_;
      const std::size_t end = std::min(rest_.find('\n'), rest_.size());
      line_ = Line(rest_.substr(0, end), number_);
      rest_.remove_prefix(std::min(end + 1, rest_.size()));
    } while (line_.blank() && !rest_.empty());
  }
  Status next_line() {
    TUTTI_TRY(line_.end());
    advance();
    return ok_status();
  }

  Status header();
  Status collective();
  Status in_place();
  Status layout();
  Status algorithm();
  Status formats();
  Status group();
  Result<std::pair<std::uint64_t, std::uint64_t>> range(std::uint64_t limit, std::string_view what);
  Result<std::uint64_t> field(std::string_view key, std::uint64_t first, std::uint64_t limit);

  Status program(std::uint64_t rank);
  Status scratch(Program& program);
  Status step(Program& program);
  Status action(Step& step);
  Status group_action(Step& step);
  Status peer(Step& step, std::string_view preposition);
  Status dependencies(Step& step, std::uint64_t own);
  Result<ChunkSet> operand();

  std::string_view rest_;
  std::size_t number_ = 0;
  Line line_;
  std::uint64_t scratch_chunks_ = 0;
  Schedule schedule_;
};

Status Parser::header() {
  TUTTI_TRY(line_.keyword("tutti-schedule"));
  TUTTI_TRY(line_.keyword("1"));
  TUTTI_TRY(next_line());
  TUTTI_TRY(collective());
  Request& request = schedule_.request;
  TUTTI_ASSIGN(const std::uint64_t ranks, field("ranks", 1, kMostRanks + 1));
  request.ranks = static_cast<std::int32_t>(ranks);
  if (rooted(request.collective)) {
    TUTTI_ASSIGN(const std::uint64_t root, field("root", 0, ranks));
    request.root = static_cast<Rank>(root);
  }
  TUTTI_TRY(in_place());
  TUTTI_TRY(layout());
  TUTTI_TRY(algorithm());
  TUTTI_ASSIGN(const std::uint64_t per_block, field("chunks_per_block", 1, kMostChunks + 1));
  schedule_.chunks_per_block = static_cast<std::uint32_t>(per_block);
  TUTTI_ASSIGN(const std::uint64_t lanes, field("lanes", 1, std::uint64_t{kMostLanes} + 1));
  schedule_.lanes = static_cast<std::uint32_t>(lanes);
  TUTTI_TRY(formats());
  while (line_.peek() == "group") TUTTI_TRY(group());
  return ok_status();
}

/// A line of a key and a number.
Result<std::uint64_t> Parser::field(std::string_view key, std::uint64_t first,
                                    std::uint64_t limit) {
  TUTTI_TRY(line_.keyword(key));
  TUTTI_ASSIGN(const std::uint64_t value, line_.number("a number", first, limit));
  TUTTI_TRY(next_line());
  return value;
}

Status Parser::collective() {
  TUTTI_TRY(line_.keyword("collective"));
  for (int i = 0; i < kCollectives; ++i) {
    const auto candidate = static_cast<Collective>(i);
    if (line_.peek() != name_of(candidate)) continue;
    schedule_.request.collective = candidate;
    line_.skip();
    return next_line();
  }
  return line_.unexpected("the name of a collective, such as all_reduce");
}

Status Parser::in_place() {
  TUTTI_TRY(line_.keyword("in_place"));
  if (line_.peek() != "yes" && line_.peek() != "no") return line_.unexpected("yes or no");
  schedule_.request.in_place = line_.peek() == "yes";
  line_.skip();
  return next_line();
}

Status Parser::layout() {
  if (line_.peek() != "layout") return ok_status();
  line_.skip();
  Result<Layout> layout = parse_layout(line_.peek());
  const std::int32_t ranks = schedule_.request.ranks;
  if (line_.done() || !layout || !check(*layout, ranks))
    return line_.unexpected(fmt::format("a layout of {} ranks, such as 2x4 or 4,3,4", ranks));
  schedule_.request.layout = *std::move(layout);
  line_.skip();
  return next_line();
}

Status Parser::algorithm() {
  if (line_.peek() != "algorithm") return ok_status();
  line_.skip();
  if (line_.done() || line_.peek().size() > kLongestName)
    return line_.unexpected(fmt::format("a name of at most {} bytes", kLongestName));
  schedule_.algorithm = line_.peek();
  line_.skip();
  return next_line();
}

/// formats NAME ...
Status Parser::formats() {
  if (line_.peek() != "formats") return ok_status();
  line_.skip();
  do {
    const bool is_new =
        std::ranges::find(schedule_.formats, line_.peek()) == schedule_.formats.end();
    if (line_.done() || !is_format_name(line_.peek()) || !is_new ||
        schedule_.formats.size() == kMostFormats)
      return line_.unexpected(fmt::format(
          "the names of one to {} different formats, of at most {} small letters, digits "
          "and underscores",
          kMostFormats, kLongestFormatName));
    schedule_.formats.emplace_back(line_.peek());
    line_.skip();
  } while (!line_.done());
  return next_line();
}

/// The numbers of "3" or "2..5", below `limit`.
Result<std::pair<std::uint64_t, std::uint64_t>> Parser::range(std::uint64_t limit,
                                                              std::string_view what) {
  std::string_view rest = line_.peek();
  const auto first = to_number(take_until(rest, "..").value_or(rest));
  const auto last = to_number(rest);
  if (!first || !last || *last < *first || *last >= limit)
    return line_.unexpected(fmt::format("a {} below {} or a range such as 2..5", what, limit));
  return std::pair(*first, *last);
}

/// group 0..3 7: the ranks of the next group.
Status Parser::group() {
  if (schedule_.groups.size() == kMostGroups)
    return line_.unexpected(fmt::format("at most {} groups", kMostGroups));
  line_.skip();
  std::vector<Rank>& ranks = schedule_.groups.emplace_back().ranks;
  do {
    TUTTI_ASSIGN(const auto next,
                 range(static_cast<std::uint64_t>(schedule_.request.ranks), "rank"));
    if (ranks.size() + next.second - next.first >=
        static_cast<std::size_t>(schedule_.request.ranks))
      return line_.unexpected("each rank once at most");
    for (std::uint64_t rank = next.first; rank <= next.second; ++rank)
      ranks.push_back(static_cast<Rank>(rank));
    line_.skip();
  } while (!line_.done());
  return next_line();
}

Status Parser::program(std::uint64_t rank) {
  if (line_.peek() != "rank") return line_.unexpected(fmt::format("a step or `rank {}`", rank));
  line_.skip();
  TUTTI_TRY(line_.number("the rank", rank, rank + 1));
  TUTTI_TRY(next_line());
  Program& program = schedule_.programs.emplace_back();
  while (line_.peek() == "scratch") TUTTI_TRY(scratch(program));
  while (!line_.blank() && line_.peek() != "rank") TUTTI_TRY(step(program));
  return ok_status();
}

/// scratch 0..3 7: which chunks the scratch chunks are sized like.
Status Parser::scratch(Program& program) {
  line_.skip();
  if (line_.done()) return line_.unexpected("a chunk or a range of chunks");
  while (!line_.done()) {
    TUTTI_ASSIGN(const auto next, range(kMostChunks, "chunk"));
    scratch_chunks_ += next.second - next.first + 1;
    if (scratch_chunks_ > kMostScratch)
      return line_.unexpected(fmt::format("at most {} scratch chunks in all", kMostScratch));
    for (std::uint64_t chunk = next.first; chunk <= next.second; ++chunk)
      program.scratch.push_back(static_cast<std::uint32_t>(chunk));
    line_.skip();
  }
  return next_line();
}

Status Parser::step(Program& program) {
  const std::uint64_t own = program.steps.size();
  if (own >= kMostSteps)
    return line_.unexpected(fmt::format("at most {} steps of a rank", kMostSteps));
  TUTTI_TRY(line_.keyword(fmt::format("{}:", own)));
  Step& step = program.steps.emplace_back();
  TUTTI_TRY(action(step));
  TUTTI_TRY(dependencies(step, own));
  return next_line();
}

Status Parser::action(Step& step) {
  int verb = 0;
  while (verb < kVerbs && line_.peek() != name_of(static_cast<Verb>(verb))) ++verb;
  if (verb == kVerbs)
    return line_.unexpected("one of send, recv, copy, reduce, group_reduce and multicast");
  line_.skip();
  step.verb = static_cast<Verb>(verb);
  if (uses_group(step.verb)) return group_action(step);
  if (uses_src(step.verb)) {
    TUTTI_ASSIGN(step.src, operand());
  }
  if (step.verb == Verb::kSend) return peer(step, "to");
  if (step.verb != Verb::kRecv) TUTTI_TRY(line_.keyword("into"));
  TUTTI_ASSIGN(step.dst, operand());
  return step.verb == Verb::kRecv ? peer(step, "from") : ok_status();
}

/// [chunks] [into chunks] over GROUP
Status Parser::group_action(Step& step) {
  if (line_.peek() != "into" && line_.peek() != "over") {
    TUTTI_ASSIGN(step.src, operand());
  }
  if (line_.peek() == "into") {
    line_.skip();
    TUTTI_ASSIGN(step.dst, operand());
  }
  TUTTI_TRY(line_.keyword("over"));
  TUTTI_ASSIGN(const std::uint64_t group, line_.number("a group", 0, schedule_.groups.size()));
  step.group = static_cast<GroupId>(group);
  return ok_status();
}

Status Parser::peer(Step& step, std::string_view preposition) {
  const auto ranks = static_cast<std::uint64_t>(schedule_.request.ranks);
  TUTTI_TRY(line_.keyword(preposition));
  TUTTI_ASSIGN(const std::uint64_t peer, line_.number("a rank", 0, ranks));
  step.peer = static_cast<Rank>(peer);
  if (line_.peek() != "lane") return ok_status();
  line_.skip();
  TUTTI_ASSIGN(const std::uint64_t lane, line_.number("a lane", 0, schedule_.lanes));
  step.lane = static_cast<Lane>(lane);
  return ok_status();
}

Status Parser::dependencies(Step& step, std::uint64_t own) {
  if (line_.done()) return ok_status();
  TUTTI_TRY(line_.keyword("after"));
  std::uint64_t first = 0;
  do {
    if (first == own) return line_.unexpected("no further step, as none is left before this one");
    TUTTI_ASSIGN(const std::uint64_t dep, line_.number("a step", first, own));
    step.deps.push_back(static_cast<StepId>(dep));
    first = dep + 1;
  } while (!line_.done());
  return ok_status();
}

std::optional<Space> to_space(std::string_view name) {
  for (int i = 0; i < kSpaces; ++i)
    if (name == name_of(static_cast<Space>(i))) return static_cast<Space>(i);
  return std::nullopt;
}

/// The chunks of "3", "2..5" or "1..7:2"; nullopt for anything else, too large numbers included.
std::optional<ChunkSet> to_chunks(Space space, std::string_view range) {
  const auto first_text = take_until(range, "..");
  if (!first_text) {
    const auto only = to_number(range);
    if (!only || *only >= kMostChunks) return std::nullopt;
    return ChunkSet{space, static_cast<std::uint32_t>(*only), 1, 1};
  }
  const auto last_text = take_until(range, ":");
  const auto first = to_number(*first_text);
  const auto last = to_number(last_text.value_or(range));
  const auto stride = last_text ? to_number(range) : std::optional<std::uint64_t>(1);
  if (!first || !last || !stride || *last >= kMostChunks || *first >= *last || *stride == 0 ||
      (*last - *first) % *stride != 0)
    return std::nullopt;
  return ChunkSet{space, static_cast<std::uint32_t>(*first),
                  static_cast<std::uint32_t>((*last - *first) / *stride + 1),
                  static_cast<std::uint32_t>(*stride)};
}

Result<ChunkSet> Parser::operand() {
  std::string_view word = line_.peek();
  const auto space = to_space(take_until(word, "[").value_or(""));
  const auto range = take_until(word, "]");
  const auto chunks = space && range ? to_chunks(*space, *range) : std::nullopt;
  if (!chunks || !(word.empty() || word.starts_with('.')))
    return line_.unexpected(
        fmt::format("chunks below {}, such as in[3], out[2..5] or tmp[1..7:2]", kMostChunks));
  ChunkSet set = *chunks;
  if (!word.empty()) {
    const auto format = std::ranges::find(schedule_.formats, word.substr(1));
    if (format == schedule_.formats.end())
      return line_.unexpected(
          schedule_.formats.empty()
              ? "chunks without a format, since there is no line of formats"
              : fmt::format("one of the formats {}", fmt::join(schedule_.formats, ", ")));
    set.format = static_cast<FormatId>(format - schedule_.formats.begin() + 1);
  }
  line_.skip();
  return set;
}

}  // namespace

Result<Schedule> parse(std::string_view text) { return Parser(text).run(); }

}  // namespace tutti::ir
