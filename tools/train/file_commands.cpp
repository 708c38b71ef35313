// The commands that read and write files, and need no tensor library.
#include <filesystem>
#include <string>

#include "src/base/result.hpp"
#include "tools/program/cli.hpp"
#include "tools/program/command_line.hpp"
#include "tools/train/checkpoints.hpp"
#include "tools/train/commands.hpp"
#include "tools/train/plot.hpp"
#include "tools/train/step_log.hpp"
#include "tools/train/text_data.hpp"

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostText = std::size_t{1} << 34U, kMostLog = std::size_t{1} << 31U;
constexpr int kMostRanks = 256;  ///< each is a thread here
constexpr std::string_view kWeights = ".safetensors";

int exit_with(std::string_view program, const Status& done) {
  return done ? static_cast<int>(tools::kExitFine) : tools::fail(program, done.error());
}

Status prepare(const std::string& from, const std::string& to, double share) {
  TUTTI_TRY(tools::check_writable(to));
  TUTTI_ASSIGN(std::string text, read_file(from, kMostText));
  if (TextData::is_prepared(text))
    return make_error(Code::kWrongData, "{} was prepared already: name the text that it was",
                      tools::shown_path(from));
  auto data = TextData::split(std::move(text), share);
  if (!data) return tools::wrong_file(from, data.error());
  TUTTI_TRY(tools::write_output(to, data->file()));
  if (to != "-")
    tools::note(fmt::format("{}: {} bytes to train on, {} to validate with\n",
                            tools::shown_path(to), data->training().size(),
                            data->validation().size()));
  return ok_status();
}

Status plot(const std::string& from, const std::string& to, const std::string& title) {
  TUTTI_TRY(tools::check_writable(to));
  TUTTI_ASSIGN(const std::string text, read_file(from, kMostLog));
  const auto log = parse_log(text);
  if (!log) return tools::wrong_file(from, log.error());
  const auto svg = plot_svg(*log, title.empty() ? log->runs.back().data : title);
  if (!svg) return tools::wrong_file(from, svg.error());
  return tools::write_output(to, *svg);
}

Status show(const std::string& path, const std::string& json_path) {
  TUTTI_ASSIGN(const training::Checkpoint checkpoint, open_checkpoint(path));
  TUTTI_ASSIGN(const Inspection found, inspect(checkpoint));
  return tools::write_results(json_path, found.text, [&] { return found.json; });
}

Result<WholeCheckpoint> read_any(const std::string& from) {
  if (from.ends_with(kWeights)) return read_weights(from);
  TUTTI_ASSIGN(const training::Checkpoint checkpoint, open_checkpoint(from));
  return read_whole(checkpoint);
}

Status reshard(const std::string& from, const std::string& to, int ranks) {
  TUTTI_ASSIGN(const WholeCheckpoint whole, read_any(from));
  if (to.ends_with(kWeights)) return write_weights(to, whole);
  std::error_code why;
  fs::create_directories(to, why);
  if (why)
    return make_error(Code::kUnavailable, "cannot create {}: {}", tools::shown_path(to),
                      why.message());
  return write_whole(to, whole, ranks);
}

}  // namespace

int prepare_command(int argc, char** argv) {
  tools::CommandLine app(
      "Checks a text, splits it for training and validation, and writes both as one file.",
      "tutti train prepare");
  std::string from, to;
  double share = TextData::kValidationShare;
  app.add_option("text", from, "file of text, of any encoding: bytes are what is learned")
      .required();
  app.add_option("-o,--output", to, "file to write; '-': standard output").required();
  app.add_option("--validation", share, "share of the text, its end, that is kept for validation")
      .shows_default()
      .in_range(0, 0.9);
  if (const auto code = app.parse(argc, argv)) return *code;
  return tools::within_memory(app.name(),
                              [&] { return exit_with(app.name(), prepare(from, to, share)); });
}

int plot_command(int argc, char** argv) {
  tools::CommandLine app("Draws loss, throughput and the time of steps of a run.",
                         "tutti train plot");
  std::string from, to, title;
  app.add_option("log", from, "log.jsonl of a run").required();
  app.add_option("-o,--output", to, "SVG to write; '-': standard output").required();
  app.add_option("--title", title, "of the picture (the name of the data)");
  if (const auto code = app.parse(argc, argv)) return *code;
  return tools::within_memory(app.name(),
                              [&] { return exit_with(app.name(), plot(from, to, title)); });
}

int inspect_command(int argc, char** argv) {
  tools::CommandLine app("Shows what a checkpoint has, and checks all of it.",
                         "tutti train inspect");
  std::string path, json_path;
  app.add_option("checkpoint", path, "folder of a run, or one of its steps: out, out/step_50")
      .required();
  app.add_option("--json", json_path, "write it as JSON; '-': standard output");
  if (const auto code = app.parse(argc, argv)) return *code;
  return tools::within_memory(app.name(),
                              [&] { return exit_with(app.name(), show(path, json_path)); });
}

int reshard_command(int argc, char** argv) {
  tools::CommandLine app(
      "Writes a checkpoint as another number of ranks would have; from and to safetensors, too.\n"
      "Any number of ranks reads any checkpoint: this is for other programs, and for file counts.",
      "tutti train reshard");
  std::string from, to;
  int ranks = 1;
  app.add_option("checkpoint", from, "folder of a run or of a step, or X.safetensors").required();
  app.add_option("-o,--output", to,
                 "folder to write a step to, or X.safetensors for the parameters alone")
      .required();
  app.add_option("--ranks", ranks, "whose files are written")
      .shows_default()
      .in_range(1, kMostRanks);
  if (const auto code = app.parse(argc, argv)) return *code;
  return tools::within_memory(app.name(),
                              [&] { return exit_with(app.name(), reshard(from, to, ranks)); });
}

}  // namespace tutti::trainer
