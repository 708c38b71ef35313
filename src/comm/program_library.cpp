#include "src/comm/program_library.hpp"

#include "src/base/result.hpp"

namespace tutti {

Result<ProgramLibrary::Program> ProgramLibrary::get(const Key& key,
                                                    const std::function<Result<Program>()>& make) {
  const std::scoped_lock lock(mutex_);
  if (const auto known = programs_.find(key); known != programs_.end())
    if (Program program = known->second.lock()) return program;
  TUTTI_ASSIGN(Program program, make());
  std::erase_if(programs_, [](const auto& entry) { return entry.second.expired(); });
  if (program) programs_[key] = program;
  return program;
}

}  // namespace tutti
