// A machine as readable text: everything that detection read on it. Detection can then be repeated
// anywhere: users attach such a file to a bug report, and tests need no hardware.
//
//   tutti machine 1                              the first line
//   # a comment
//   /sys/class/net/eth0/speed: 25000             a file of one line
//   /proc/self/cgroup <<END                      a file of several lines, up to a line END
//   0::/
//   END
//   /sys/class/net/eth0 -> ../../devices/x/eth0  a symbolic link, which may have files below it:
//                                                nothing is resolved, paths are what was asked for
//   /sys/class/net/lo/                           a directory; those of files need no such line
//   /sys/class/net/eth1/speed ! why              what cannot be read, and why
//
// Two names are no paths: hwloc.xml and nvml.json (what NVML said of the GPUs).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "src/topo/detect/probe.hpp"
#include "tutti/error.hpp"

namespace tutti::topo {

/// What a machine answers. Value.
class Recording {
 public:
  struct File {
    std::string text;
    friend bool operator==(const File&, const File&) = default;
  };
  struct SymbolicLink {
    std::string target;
    friend bool operator==(const SymbolicLink&, const SymbolicLink&) = default;
  };
  struct Directory {
    friend bool operator==(const Directory&, const Directory&) = default;
  };
  struct Failure {
    std::string why;
    friend bool operator==(const Failure&, const Failure&) = default;
  };
  using Entry = std::variant<Directory, File, SymbolicLink, Failure>;

  /// kInvalidArgument names the line that is wrong. At most 64 MiB and 200,000 entries.
  static Result<Recording> parse(std::string_view text);
  [[nodiscard]] std::string text() const;

  /// The later of two answers to one question stays; a directory replaces nothing.
  void add(const std::string& path, Entry entry);
  [[nodiscard]] const std::map<std::string, Entry>& entries() const { return entries_; }

  friend bool operator==(const Recording&, const Recording&) = default;

 private:
  std::map<std::string, Entry> entries_;
};

/// Plays a recording back. What is not in it does not exist.
class RecordedProbe final : public SystemProbe {
 public:
  explicit RecordedProbe(Recording recording) : recording_(std::move(recording)) {}

  Result<std::string> read_file(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& path) override;
  Result<std::string> link_target(const std::string& path) override;
  Result<std::string> hwloc_xml() override;
  Result<std::vector<cuda::GpuFacts>> gpus() override;

 private:
  Recording recording_;
};

/// Passes questions on to another probe and keeps the answers.
class RecordingProbe final : public SystemProbe {
 public:
  /// `system` must outlive this probe.
  explicit RecordingProbe(SystemProbe& system) : system_(system) {}
  [[nodiscard]] const Recording& recording() const { return recording_; }

  Result<std::string> read_file(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& path) override;
  Result<std::string> link_target(const std::string& path) override;
  Result<std::string> hwloc_xml() override;
  Result<std::vector<cuda::GpuFacts>> gpus() override;

 private:
  SystemProbe& system_;
  Recording recording_;
};

/// GPUs as JSON, and back; errors say which GPU is wrong.
std::string gpus_as_json(const std::vector<cuda::GpuFacts>& gpus);
Result<std::vector<cuda::GpuFacts>> gpus_from_json(std::string_view json);

}  // namespace tutti::topo
