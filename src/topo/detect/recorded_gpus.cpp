// GPUs as a recorded machine keeps them: one JSON object a GPU.
#include <cmath>

#include <nlohmann/json.hpp>

#include "src/base/result.hpp"
#include "src/topo/detect/recorded.hpp"

namespace tutti::topo {
namespace {

using OrderedJson = nlohmann::ordered_json;
using cuda::GpuFacts;
using cuda::NvlinkBundle;
using cuda::NvlinkEnd;

constexpr std::size_t kMostGpus = 1024, kMostBundles = 64;
constexpr const char* kEnds[] = {"gpu", "switch", "cpu", "unknown"};  // by NvlinkEnd

OrderedJson as_json(const GpuFacts& gpu) {
  OrderedJson json = {{"bus_id", gpu.bus_id},
                      {"name", gpu.name},
                      {"compute_capability", {gpu.compute_major, gpu.compute_minor}}};
  for (const NvlinkBundle& bundle : gpu.nvlinks)
    json["nvlinks"].push_back({{"to", kEnds[static_cast<std::size_t>(bundle.end)]},
                               {"bus_id", bundle.bus_id},
                               {"links", bundle.links}});
  if (gpu.c2c_mb_per_s > 0) json["c2c_mb_per_s"] = gpu.c2c_mb_per_s;
  if (gpu.fabric)
    json["fabric"] = {{"cluster", gpu.fabric->cluster}, {"clique", gpu.fabric->clique}};
  return json;
}

/// Throws what is wrong as nlohmann's exceptions do, with this number of its own.
[[noreturn]] void refuse(const std::string& why, const OrderedJson& where) {
  throw OrderedJson::other_error::create(500, why, &where);
}

std::uint32_t count_of(const OrderedJson& json, std::uint32_t most) {
  const auto count = json.is_number_unsigned() ? json.get<std::uint64_t>() : most + 1ULL;
  if (count > most) refuse(fmt::format("{} is no count of at most {}", json.dump(), most), json);
  return static_cast<std::uint32_t>(count);
}

NvlinkBundle bundle_of(const OrderedJson& json) {
  const std::string to = json.at("to").get<std::string>();
  std::size_t end = 0;
  while (end < std::size(kEnds) && to != kEnds[end]) ++end;
  if (end == std::size(kEnds)) refuse("an NVLink leads to a gpu, switch, cpu or unknown", json);
  NvlinkBundle bundle{.end = static_cast<NvlinkEnd>(end),
                      .bus_id = json.value("bus_id", ""),
                      .links = count_of(json.at("links"), 1024)};
  if (bundle.links == 0) refuse("a bundle has at least one link", json);
  return bundle;
}

GpuFacts gpu_of(const OrderedJson& json) {
  GpuFacts gpu;
  gpu.bus_id = json.at("bus_id").get<std::string>();
  gpu.name = json.value("name", "");
  if (const auto found = json.find("compute_capability"); found != json.end()) {
    gpu.compute_major = static_cast<int>(count_of(found->at(0), 1000));
    gpu.compute_minor = static_cast<int>(count_of(found->at(1), 1000));
  }
  if (const auto found = json.find("nvlinks"); found != json.end()) {
    if (!found->is_array() || found->size() > kMostBundles) refuse("too many bundles", json);
    for (const OrderedJson& bundle : *found) gpu.nvlinks.push_back(bundle_of(bundle));
  }
  if (const auto found = json.find("c2c_mb_per_s"); found != json.end())
    gpu.c2c_mb_per_s = found->get<double>();
  if (!(gpu.c2c_mb_per_s >= 0 && gpu.c2c_mb_per_s < 1e12)) refuse("c2c is no bandwidth", json);
  if (const auto found = json.find("fabric"); found != json.end())
    gpu.fabric = {.cluster = found->at("cluster").get<std::string>(),
                  .clique = count_of(found->at("clique"), UINT32_MAX)};
  return gpu;
}

}  // namespace

std::string gpus_as_json(const std::vector<GpuFacts>& gpus) {
  std::string text = "[";
  for (const GpuFacts& gpu : gpus)
    text += (text.size() == 1 ? "\n" : ",\n") +
            as_json(gpu).dump(-1, ' ', true, OrderedJson::error_handler_t::replace);
  return text + "\n]";
}

Result<std::vector<GpuFacts>> gpus_from_json(std::string_view json) {
  std::vector<GpuFacts> gpus;
  const auto wrong = [&](const char* why) {
    return make_error(Code::kInvalidArgument, "nvml.json, GPU {}: {}", gpus.size(), why);
  };
  try {
    const OrderedJson list = OrderedJson::parse(json);
    if (!list.is_array() || list.size() > kMostGpus)
      return make_error(Code::kInvalidArgument, "nvml.json: it is no list of at most {} GPUs",
                        kMostGpus);
    for (const OrderedJson& gpu : list) gpus.push_back(gpu_of(gpu));
  } catch (const OrderedJson::exception& error) {
    return wrong(error.what());
  }
  return gpus;
}

}  // namespace tutti::topo
