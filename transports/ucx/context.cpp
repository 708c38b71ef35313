#include "transports/ucx/context.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "src/base/result.hpp"

namespace tutti::ucx {
namespace {

constexpr std::array<std::string_view, 6> kOfOneHost = {"cma",  "knem", "posix",
                                                        "self", "sysv", "xpmem"};

bool is_of_one_host(std::string_view transport) {
  return std::ranges::find(kOfOneHost, transport) != kOfOneHost.end();
}

bool is_of_gpus(std::string_view transport) {
  return std::ranges::any_of(
      std::array<std::string_view, 4>{"cuda_", "gdr_", "rocm_", "ze_"},
      [&](std::string_view prefix) { return transport.starts_with(prefix); });
}

}  // namespace

// "#      resource 1  :  md 1  dev 1  flags -- tcp/eth0"
std::vector<std::string> transports_in(std::string_view info) {
  constexpr std::string_view kBefore = " -- ";
  std::vector<std::string> names;
  while (!info.empty()) {
    const std::string_view line = info.substr(0, info.find('\n'));
    info.remove_prefix(std::min(info.size(), line.size() + 1));
    const std::size_t at = line.find(kBefore);
    if (line.find("resource") == std::string_view::npos || at == std::string_view::npos) continue;
    const std::string_view rest = line.substr(at + kBefore.size());
    const std::size_t slash = rest.find('/');
    if (slash != std::string_view::npos && slash > 0) names.emplace_back(rest.substr(0, slash));
  }
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names;
}

Result<std::string> text_of(const std::function<void(std::FILE*)>& print) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const file = ::open_memstream(&text, &size);
  if (file == nullptr) return system_error(Code::kUnavailable, errno, "asking UCX what it found");
  print(file);
  std::fclose(file);
  std::string whole(text, size);
  std::free(text);
  return whole;
}

// "#                 lane[0]:  1:tcp/lo.0 md[1]                -> md[1]/tcp/sysdev[255] am"
std::vector<std::string> lanes_in(std::string_view info) {
  std::vector<std::string> names;
  for (std::size_t at = info.find("lane["); at != std::string_view::npos;
       at = info.find("lane[", at + 1)) {
    const std::string_view line = info.substr(at, info.find('\n', at) - at);
    const std::size_t index = line.find(": ");
    const std::size_t name = index == std::string_view::npos ? index : line.find(':', index + 1);
    if (name == std::string_view::npos) continue;
    const std::string_view rest = line.substr(name + 1);
    names.emplace_back(rest.substr(0, rest.find_first_of(". ")));
  }
  return names;
}

bool is_fast_network(std::string_view transport) {
  return transport != "tcp" && !is_of_one_host(transport) && !is_of_gpus(transport);
}

Result<SharedContext> Context::create(SharedLibrary library) {
  const EntryPoints& call = library->call();
  ucp_config_t* config = nullptr;
  if (const ucs_status_t status = call.config_read(nullptr, nullptr, &config); status != UCS_OK)
    return library->error(Code::kInvalidArgument, status, "reading UCX's settings (UCX_*)");
  const std::unique_ptr<ucp_config_t, decltype(call.config_release)> held(config,
                                                                          call.config_release);
  ucp_params_t params{};
  params.field_mask =
      UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.mt_workers_shared = 1;  // each connection has a worker, and they share this
  params.name = "tutti";
  ucp_context_h context = nullptr;
  const ucs_status_t status =
      call.init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context);
  if (status == UCS_ERR_NO_DEVICE)
    return make_error(Code::kUnsupported,
                      "UCX {} has no transport to use here: UCX_TLS and UCX_NET_DEVICES must leave "
                      "some that this machine has",
                      library->version());
  if (status != UCS_OK)
    return library->error(Code::kUnavailable, status, "initializing UCX " + library->version());
  std::shared_ptr<Context> made(new Context(std::move(library), context));
  TUTTI_TRY(made->read_transports());
  return SharedContext(std::move(made));
}

Context::~Context() { library_->call().cleanup(context_); }

Status Context::read_transports() {
  TUTTI_ASSIGN(const std::string info, text_of([this](std::FILE* file) {
                 library_->call().context_print_info(context_, file);
               }));
  transports_ = transports_in(info);
  return ok_status();
}

bool Context::notices_failures() const { return !std::ranges::all_of(transports_, is_of_one_host); }

}  // namespace tutti::ucx
