// Keeps measured tables between processes: files that settings name.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "src/base/fd.hpp"
#include "src/base/settings.hpp"
#include "src/cost/measured_table.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// What times on a machine depend on: processor, CPUs that this thread may use, kernel.
std::string machine_signature();

/// The file that a setting stands for; "": none. "auto": one of this machine, whose name ends so,
/// in the user's folder for what can be made anew.
std::string measured_file(const std::string& setting, const Environment& environment,
                          std::string_view machine, std::string_view ending);

/// The table that a process has, and its file. Reads the file at the first request. If it cannot be
/// read or written, logs that and goes on without. Thread-safe.
///
/// With a machine the file is a cache: what is of another machine, of an earlier format or older
/// than a week does not count, and is measured anew.
class MeasuredStore {
 public:
  /// `path` "": there is no file. `setting` names it in messages.
  MeasuredStore(std::string path, std::string setting, std::string machine = "")
      : path_(std::move(path)), setting_(std::move(setting)), machine_(std::move(machine)) {
    table_.machine = machine_;
  }

  [[nodiscard]] const std::string& path() const { return path_; }
  MeasuredTable table();
  /// Remembers it until the process ends. With `keep`, also writes it to the file, which must be a
  /// cache, and whose other ranges stay.
  void add(const MeasuredRange& range, bool keep);

 private:
  [[nodiscard]] bool is_cache() const { return !machine_.empty(); }
  [[nodiscard]] Result<std::string> contents() const;
  [[nodiscard]] Result<std::string> own_contents() const;
  [[nodiscard]] Result<MeasuredTable> parse(std::string_view text) const;
  void load_once();
  void merge(MeasuredTable known);
  Status save();
  /// Makes `next` the new file; `file` is its open and locked descriptor.
  Status replace_by(const Fd& file, const std::string& next);

  const std::string path_, setting_, machine_;
  std::mutex writing_;  ///< one thread at a time writes the file; locked before mutex_
  std::mutex mutex_;
  bool loaded_ = false;
  MeasuredTable table_;
};

/// What trials found out on this machine (TUTTI_TUNING_FILE): a cache. It decides only among ways
/// that give equal bits.
std::unique_ptr<MeasuredStore> store_of_verdicts(const Settings& settings);
/// What `tutti tune` measured (TUTTI_TUNING_TABLE). It decides for all calls, float sums too.
std::unique_ptr<MeasuredStore> store_of_table(const Settings& settings);

}  // namespace tutti
