// What tests do to the devices.
#include <cstring>

#include "src/verbs/fake/fake.hpp"

namespace fake_verbs {

void report_on(Model& model, ibv_event_type type, int port) {
  for (Context* context : state().contexts)
    if (context->model == &model) report(*context, type, nullptr, port);
}

namespace {

Port* find_port(const char* device, int port) {
  Model* const model = find_model(device);
  if (model == nullptr || port < 1 || static_cast<std::size_t>(port) > model->ports.size())
    return nullptr;
  return &model->ports[static_cast<std::size_t>(port) - 1];
}

}  // namespace
}  // namespace fake_verbs

using namespace fake_verbs;

FAKE_VERBS_EXPORT void fake_verbs_reset(const char* devices, std::uint64_t seed) {
  load(devices, seed);
}

FAKE_VERBS_EXPORT void fake_verbs_set_chances(const FakeVerbsChances* chances) {
  const Lock lock(state().mutex);
  state().chances = *chances;
}

FAKE_VERBS_EXPORT void fake_verbs_set_port(const char* device, int number, int active) {
  const Lock lock(state().mutex);
  Port* const port = find_port(device, number);
  if (port == nullptr || port->active == (active != 0)) return;
  port->active = active != 0;
  report_on(*find_model(device), port->active ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, number);
}

FAKE_VERBS_EXPORT void fake_verbs_set_cut(const char* device, int number, int cut) {
  const Lock lock(state().mutex);
  if (Port* const port = find_port(device, number)) port->cut = cut != 0;
}

FAKE_VERBS_EXPORT void fake_verbs_set_gid(const char* device, int number, int index,
                                          const char* gid, const char* type) {
  const Lock lock(state().mutex);
  Port* const port = find_port(device, number);
  if (port == nullptr || index < 0) return;
  if (port->gids.size() <= static_cast<std::size_t>(index))
    port->gids.resize(static_cast<std::size_t>(index) + 1);
  GidEntry& entry = port->gids[static_cast<std::size_t>(index)];
  entry.gid = parse_gid(gid);
  entry.type = parse_type(type);
  report_on(*find_model(device), IBV_EVENT_GID_CHANGE, number);
}

FAKE_VERBS_EXPORT void fake_verbs_remove(const char* device) {
  const Lock lock(state().mutex);
  Model* const model = find_model(device);
  if (model == nullptr || model->removed) return;
  for (auto& [number, pair] : state().queue_pairs)
    if (pair->context->model == model) end(*pair);
  model->removed = true;
  report_on(*model, IBV_EVENT_DEVICE_FATAL, 0);
}

FAKE_VERBS_EXPORT int fake_verbs_step(int steps) {
  const Lock lock(state().mutex);
  int busy = 0;
  for (int i = 0; i < steps; ++i) busy += step() ? 1 : 0;
  return busy;
}

FAKE_VERBS_EXPORT long fake_verbs_live(const char* kind) {
  const Lock lock(state().mutex);
  return state().live[kind];
}

FAKE_VERBS_EXPORT long fake_verbs_count(const char* what) {
  constexpr const char* kKnown[] = {"packets", "retries", "writes", "bytes",       "reads",
                                    "flaps",   "damages", "errors", "device_reads"};
  const Lock lock(state().mutex);
  for (const char* known : kKnown)
    if (std::strcmp(known, what) == 0) return state().counts[what];
  return -1;
}
