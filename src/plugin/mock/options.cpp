#include "src/plugin/mock/options.hpp"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <sstream>

namespace tutti::plugin::mock {

void misuse(const std::string& what) {
  std::fprintf(stderr, "mock plugin: misuse: %s\n", what.c_str());
  std::abort();
}

Options::Options() {
  const char* const text = std::getenv("MOCK_PLUGIN");  // NOLINT(concurrency-mt-unsafe)
  std::istringstream list(text == nullptr ? "" : text);
  for (std::string entry; std::getline(list, entry, ',');) {
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos) misuse("MOCK_PLUGIN has an entry without a value: " + entry);
    values_[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
}

const Options& Options::get() {
  static const auto& kept = *new Options;
  return kept;
}

std::uint64_t Options::number(const std::string& key, std::uint64_t otherwise) const {
  const auto found = values_.find(key);
  return found == values_.end() ? otherwise : std::strtoull(found->second.c_str(), nullptr, 10);
}

std::string Options::text(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? std::string() : found->second;
}

std::atomic<abi::Logger>& host_logger() {
  static std::atomic<abi::Logger> logger = nullptr;
  return logger;
}

void warn(const std::string& text) {
  constexpr int kWarning = 2;
  constexpr unsigned long kInitAndNet = 0x11;
  const abi::Logger log = host_logger();
  if (log != nullptr) log(kWarning, kInitAndNet, __FILE__, __LINE__, "%s\n", text.c_str());
}

int& most_requests() {
  static int most = abi::kMostRequests;
  return most;
}

abi::Outcome planned_failure(const std::string& function) {
  static auto& mutex = *new std::mutex;
  static auto& calls = *new std::map<std::string, std::uint64_t>;
  std::istringstream plan(Options::get().text("fail"));
  std::string name;
  if (!std::getline(plan, name, ':') || name != function) return abi::kSuccess;
  std::uint64_t call = 1;
  int outcome = abi::kInternalError;
  char colon = 0;
  plan >> call >> colon;
  if (colon == ':') plan >> outcome;
  const std::scoped_lock lock(mutex);
  return ++calls[function] == call ? outcome : abi::kSuccess;
}

}  // namespace tutti::plugin::mock
