// A unique id in a file that only its owner can read: the rendezvous of file:///path.
#pragma once

#include <string>

#include "src/base/clock.hpp"
#include "src/bootstrap/unique_id.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// The file of a job, made by rank 0 with mode 0600 and removed with this object. It appears whole
/// or not at all. kInvalidUsage when it exists already: an earlier job left it, or another job is
/// running.
class JobFile {
 public:
  static Result<JobFile> publish(const std::string& path, const UniqueId& id);
  JobFile(JobFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  JobFile& operator=(JobFile&&) = delete;
  JobFile(const JobFile&) = delete;
  JobFile& operator=(const JobFile&) = delete;
  ~JobFile();

 private:
  explicit JobFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

/// Waits until rank 0 has made the file. kInvalidUsage when it belongs to another user or others
/// could read or write it; kInvalidArgument when it holds no unique id.
Result<UniqueId> read_job_file(const std::string& path, Deadline deadline);

}  // namespace tutti
