// Graphs that were captured, their launches, and what they keep alive.
#include <utility>

#include "src/cuda/fake/fake.hpp"

namespace fake_cuda {
namespace {

void release(CUuserObject_st* object, unsigned count) {
  if (object->references.fetch_sub(count) != count) return;
  (void)call_on_host_thread([object] {
    object->destroy(object->user);
    delete object;
    --state().user_objects;
  });
}

}  // namespace

GraphBody::GraphBody(const GraphBody& other) : nodes(other.nodes), kept(other.kept) {
  for (const auto& [object, count] : kept) object->references += count;
}

GraphBody::~GraphBody() {
  for (const auto& [object, count] : kept) release(object, count);
}

}  // namespace fake_cuda

using namespace fake_cuda;

FAKE_CUDA_EXPORT Return cuUserObjectCreate(UserObject* object, void* user, HostFunction destroy,
                                           unsigned references, unsigned flags) {
  FAKE_CUDA_TRY(enter(__func__));
  if (destroy == nullptr || references == 0 || flags != kUserObjectNoDestructorSync)
    return Return::kInvalidValue;
  *object = new CUuserObject_st{user, destroy, references};
  ++state().user_objects;
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuUserObjectRelease(UserObject object, unsigned count) {
  FAKE_CUDA_TRY(enter(__func__));
  if (object == nullptr || count == 0 || count > object->references) return Return::kInvalidValue;
  release(object, count);
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuGraphRetainUserObject(Graph graph, UserObject object, unsigned count,
                                                unsigned flags) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  if (object == nullptr || count == 0 || flags > kGraphUserObjectMove ||
      !state().graphs.contains(graph))
    return Return::kInvalidValue;
  if (flags != kGraphUserObjectMove) object->references += count;
  graph->body.kept.emplace_back(object, count);
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuGraphInstantiateWithFlags(GraphExec* exec, Graph graph,
                                                    unsigned long long flags) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  if (flags != 0 || !state().graphs.contains(graph)) return Return::kInvalidValue;
  auto owned = std::make_unique<CUgraphExec_st>();
  owned->body = std::make_shared<const GraphBody>(graph->body);
  *exec = owned.get();
  state().graph_execs.emplace(*exec, std::move(owned));
  return Return::kSuccess;
}

FAKE_CUDA_EXPORT Return cuGraphLaunch(GraphExec exec, Stream handle) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  CUstream_st* stream = nullptr;
  FAKE_CUDA_TRY(find_stream(handle, stream));
  if (!state().graph_execs.contains(exec)) return Return::kInvalidValue;
  std::vector<Done> after;
  if (exec->last) after.push_back(exec->last);
  const auto run = [body = exec->body] {
    for (const GraphBody::Node& node : body->nodes) FAKE_CUDA_TRY(node.run());
    return Return::kSuccess;
  };
  return submit(*stream, run, std::move(after), &exec->last);
}

FAKE_CUDA_EXPORT Return cuGraphExecDestroy(GraphExec exec) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  return state().graph_execs.erase(exec) == 1 ? Return::kSuccess : Return::kInvalidValue;
}

FAKE_CUDA_EXPORT Return cuGraphDestroy(Graph graph) {
  FAKE_CUDA_TRY(enter(__func__));
  const std::scoped_lock lock(state().mutex);
  return state().graphs.erase(graph) == 1 ? Return::kSuccess : Return::kInvalidValue;
}
