#include "tools/algo/export.hpp"

#include <nlohmann/json.hpp>

namespace tutti::tools {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const ir::ChunkSet& set) {
  return {{"space", name_of(set.space)},
          {"first", set.first},
          {"count", set.count},
          {"stride", set.stride}};
}

Json json_of(const ir::Step& step) {
  Json json = {{"verb", name_of(step.verb)}};
  if (uses_src(step.verb)) json["src"] = json_of(step.src);
  if (uses_dst(step.verb)) json["dst"] = json_of(step.dst);
  if (uses_peer(step.verb)) {
    json["peer"] = step.peer;
    json["lane"] = step.lane;
  }
  json["deps"] = step.deps;
  return json;
}

constexpr std::string_view kBegin = "{\n \"algorithm\": ";

}  // namespace

bool is_written_json(std::string_view text) { return text.starts_with(kBegin); }

std::string to_json(const ir::Schedule& schedule) {
  const ir::Request& request = schedule.request;
  Json json = {{"algorithm", schedule.algorithm},
               {"collective", name_of(request.collective)},
               {"ranks", request.ranks},
               {"root", request.root},
               {"in_place", request.in_place},
               {"layout", print(request.layout)},
               {"chunks_per_block", schedule.chunks_per_block},
               {"lanes", schedule.lanes},
               {"programs", Json::array()}};
  for (const ir::Program& program : schedule.programs) {
    Json steps = Json::array();
    for (const ir::Step& step : program.steps) steps.push_back(json_of(step));
    json["programs"].push_back({{"scratch", program.scratch}, {"steps", std::move(steps)}});
  }
  return json.dump(1) + "\n";
}

}  // namespace tutti::tools
