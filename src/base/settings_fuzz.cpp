// Feeds arbitrary environments ("NAME=value" lines) to the settings and holds them to their
// contract: what loads is in range, what fails names its variable, and no message shows the secret.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "src/base/settings.hpp"

namespace {

constexpr std::string_view kSecret = "TUTTI_JOB_KEY";

std::map<std::string, std::string> variables_in(std::string_view text) {
  std::map<std::string, std::string> variables;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    variables[std::string(line.substr(0, equals))] = line.substr(equals + 1);
  }
  return variables;
}

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto variables = variables_in({reinterpret_cast<const char*>(data), size});
  variables[std::string(kSecret)] = "secret-" + variables[std::string(kSecret)];
  const auto settings =
      tutti::Settings::load([&](const std::string& name) -> std::optional<std::string> {
        const auto at = variables.find(name);
        return at == variables.end() ? std::nullopt : std::optional(at->second);
      });
  if (settings) {
    require(settings->seconds("LIVENESS") >= 0.1 && settings->seconds("LIVENESS") <= 3600);
    require(settings->integer("STAGING_BYTES") >= 4096);
    for (const auto& info : tutti::all_settings())
      require(settings->displayed(info.name).find("secret-") == std::string::npos);
  } else {
    const std::string& what = settings.error().what;
    require(what.find("TUTTI_") != std::string::npos || what.find("NCCL_") != std::string::npos);
  }
  std::vector<std::string> names;
  for (const auto& [name, value] : variables) names.push_back(name);
  for (const auto& unknown : tutti::unknown_settings(names))
    require(variables.contains(unknown.name));
  return 0;
}
