// The command line of tutti-bench: nccl-tests' flags, and a few more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/codec/compression.hpp"
#include "tools/program/sizes.hpp"
#include "tutti/error.hpp"
#include "tutti/types.hpp"

namespace tutti::bench {

enum class Memory : std::uint8_t {
  kPages,  ///< ordinary memory, page aligned: what most programs pass
  kAlloc,  ///< ncclMemAlloc: memory that peers can map
};

/// Tells a process that the job it belongs to was started by this program.
inline constexpr const char* kJoinedFlag = "--joined";

enum class Binding : std::uint8_t {
  kAuto,  ///< one core for each rank where they fit, else none
  kNone,
};

/// A run, as asked for. Value.
struct Options {
  std::string program = "tutti bench";  ///< how the user called it, for messages
  std::vector<Collective> tests;
  tools::SizeRange sizes;
  std::vector<DataType> types = {DataType::kFloat32};
  std::vector<ReduceOp> ops = {ReduceOp::kSum};
  static constexpr Rank kAllRoots = -1;
  Rank root = 0;

  int iterations = 0;  ///< 0: until the median is known well enough
  int warmups = 5;
  int aggregated = 1;    ///< operations in one group
  int checks = 1;        ///< checked iterations before a timed series; 0: no checks at all
  int cycles = 1;        ///< how often the table repeats; 0: for ever
  bool barrier = false;  ///< after every iteration
  bool out_of_place = true;
  bool in_place = true;
  std::size_t misalign = 0;  ///< elements between a page's start and each buffer's
  bool register_buffers = false;
  Memory memory = Memory::kPages;
  bool on_gpus = false;  ///< the ranks' buffers are GPU memory

  int ranks = 0;    ///< all ranks of a job that this program starts; 0: not given
  int threads = 1;  ///< of each process
  int ranks_per_thread = 1;
  bool joined = false;  ///< a process of a job that this program started
  Binding binding = Binding::kAuto;
  double timeout_s = 0;   ///< of one operation; 0: none
  std::string algorithm;  ///< "": the library chooses
  /// Of what is float: --compress, or TUTTI_COMPRESS.
  std::map<Collective, codec::Compression> compressions;
  bool sets_compression = false;  ///< --compress: the library is told

  bool show_limit = true;  ///< a column with % of the machine's limit
  bool percentiles = false;
  bool timestamps = false;
  std::string json;          ///< file, "-" for standard output, "" for none
  std::string compare;       ///< JSON of an earlier run
  double gate_percent = -1;  ///< fail when a row is slower by more; < 0: no gate
  double expected_gbs = -1;  ///< fail when the average bus bandwidth is lower; < 0: any will do

  [[nodiscard]] int ranks_per_process() const { return threads * ranks_per_thread; }
};

/// Either a run, or a text that was asked for (--help, --version) in place of one.
struct ParsedOptions {
  std::optional<Options> run;
  std::string text;
};

/// How the user called this program: "all_reduce_perf" or "tutti bench".
std::string program_name(std::span<const std::string> arguments);

/// `arguments[0]` is the program's name: under nccl-tests' names (all_reduce_perf ...) it chooses
/// the collective and the default size 32M; otherwise the first argument names the collective and
/// sizes go from 8 to 16M. Errors are one sentence for the user; the exit code is 2.
Result<ParsedOptions> parse_options(std::span<const std::string> arguments);

}  // namespace tutti::bench
