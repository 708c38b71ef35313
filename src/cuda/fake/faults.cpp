// Injected failures, counts of calls, and the report of what was not given back.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "src/cuda/fake/fake.hpp"

namespace fake_cuda {
namespace {

thread_local bool on_host_function_thread = false;
std::atomic<Peers> how_peers_are = Peers::kReached;

struct Fault {
  std::string entry_point;
  long call;
  Return error;
};

struct Faults {
  std::mutex mutex;
  std::vector<Fault> list;
  std::map<std::string, long> calls;
  Faults();
  void set(const char* text);
};

Faults& faults() {
  static auto* const instance = new Faults;  // never destroyed: threads outlive main
  return *instance;
}

Faults::Faults() {
  if (const char* const text = std::getenv("FAKE_CUDA_FAIL")) set(text);
}

void Faults::set(const char* text) {
  list.clear();
  calls.clear();
  for (const std::string& entry : [&] {
         std::vector<std::string> entries(1);
         for (const char* c = text; *c != '\0'; ++c)
           if (*c == ',')
             entries.emplace_back();
           else
             entries.back() += *c;
         return entries;
       }()) {
    if (entry.empty()) continue;
    char name[128];
    long call = 0;
    unsigned error = static_cast<unsigned>(Return::kUnknown);
    if (std::sscanf(entry.c_str(), "%127[^:]:%ld:%u", name, &call, &error) < 2) {
      std::fprintf(stderr, "fake CUDA: '%s' is not NAME:CALL or NAME:CALL:ERROR\n", entry.c_str());
      std::abort();
    }
    list.push_back({name, call, static_cast<Return>(error)});
  }
}

}  // namespace

long setting(const char* name, long otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr || *text == '\0' ? otherwise : std::strtol(text, nullptr, 10);
}

Peers peers() { return how_peers_are; }

void enter_host_functions() { on_host_function_thread = true; }

Return enter(const char* entry_point) {
  if (on_host_function_thread) {
    std::fprintf(stderr, "fake CUDA: a host function called %s, and must not call CUDA\n",
                 entry_point);
    std::abort();
  }
  Faults& known = faults();
  const std::scoped_lock lock(known.mutex);
  const long call = ++known.calls[entry_point];
  const long any = ++known.calls["*"];
  for (const Fault& fault : known.list)
    if ((fault.entry_point == entry_point && fault.call == call) ||
        (fault.entry_point == "*" && fault.call == any))
      return fault.error;
  return Return::kSuccess;
}

}  // namespace fake_cuda

using namespace fake_cuda;

FAKE_CUDA_EXPORT void fake_cuda_fail(const char* list) {
  const std::scoped_lock lock(faults().mutex);
  faults().set(list);
}

FAKE_CUDA_EXPORT void fake_cuda_peers(int how) { how_peers_are = static_cast<Peers>(how); }

FAKE_CUDA_EXPORT long fake_cuda_calls(const char* entry_point) {
  const std::scoped_lock lock(faults().mutex);
  const auto found = faults().calls.find(entry_point);
  return found == faults().calls.end() ? 0 : found->second;
}

FAKE_CUDA_EXPORT long fake_cuda_live(const char* what) {
  const std::scoped_lock lock(state().mutex);
  const auto size = [](const auto& all) { return static_cast<long>(all.size()); };
  std::map<std::string, long> live{{"allocations", 0},
                                   {"registrations", 0},
                                   {"imports", 0},
                                   {"mappings", 0},
                                   {"contexts", 0},
                                   {"handles", size(state().allocations)},
                                   {"reservations", size(state().reservations)},
                                   {"streams", size(state().streams)},
                                   {"events", size(state().events)},
                                   {"modules", size(state().modules)},
                                   {"graphs", size(state().graphs) + size(state().graph_execs)},
                                   {"user objects", state().user_objects}};
  for (const auto& [address, range] : state().ranges)
    ++live[range.kind == Kind::kPinned     ? "registrations"
           : range.kind == Kind::kMapped   ? "mappings"
           : range.kind == Kind::kImported ? "imports"
                                           : "allocations"];
  for (const auto& device : state().devices) {
    live["contexts"] += device->references;
    live["streams"] -= size(device->per_thread) + (device->legacy != nullptr ? 1 : 0);
  }
  if (std::strcmp(what, "*") == 0) {
    long all = 0;
    for (const auto& [name, count] : live) all += count;
    return all;
  }
  const auto found = live.find(what);
  return found == live.end() ? -1 : found->second;
}
