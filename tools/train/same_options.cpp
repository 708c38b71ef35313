#include "tools/train/same_options.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "src/base/result.hpp"
#include "training/agreement.hpp"

namespace tutti::trainer {
namespace {

std::string line_of(std::string_view name, const auto& value) {
  return fmt::format("{} {}", name, value);
}

template <class T>
std::string line_of(std::string_view name, const std::optional<T>& value) {
  return value ? fmt::format("{} {}", name, *value) : fmt::format("no {}", name);
}

/// Lines have no ends of lines in them.
std::string quoted(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return fmt::format("'{}'", text);
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return lines;
}

}  // namespace

std::vector<std::string> shared_options(const Options& o, std::uint32_t data_hash) {
  return {line_of("--size", o.size),
          line_of("--layers", o.layers),
          line_of("--heads", o.heads),
          line_of("--width", o.width),
          line_of("--context", o.context),
          line_of("--strategy", o.strategy),
          line_of("--shard-size", o.shard_size),
          line_of("--hpz", o.hpz),
          line_of("--reshard-after-forward", quoted(o.reshard_after_forward)),
          line_of("--bucket-mb", o.bucket_mb),
          line_of("--first-bucket-mb", o.first_bucket_mb),
          line_of("--prefetch-mb", o.prefetch_mb),
          line_of("--accumulate", o.accumulate),
          line_of("--whole-gradients", o.whole_gradients),
          line_of("--quantize-weights", quoted(o.quantize_weights)),
          line_of("--quantize-gradients", quoted(o.quantize_gradients)),
          line_of("--secondary", o.secondary),
          line_of("--compress", quoted(o.compress)),
          line_of("--error-feedback", quoted(o.error_feedback)),
          line_of("--compress-warmup", o.compress_warmup),
          line_of("--compress-momentum", o.compress_momentum),
          line_of("--precision", o.precision),
          line_of("--reduce-precision", quoted(o.reduce_precision)),
          line_of("--loss-scale", quoted(o.loss_scale)),
          line_of("--checkpoint-activations", o.checkpoint_activations),
          line_of("--device", o.device),
          line_of("--deterministic", o.deterministic),
          line_of("--virtual-shards", o.virtual_shards),
          line_of("--batch", o.batch),
          line_of("--tokens-per-batch", o.tokens_per_batch),
          line_of("--steps", o.steps),
          line_of("--minutes", o.minutes),
          line_of("--lr", o.lr),
          line_of("--min-lr", o.min_lr),
          line_of("--warmup", o.warmup),
          line_of("--weight-decay", o.weight_decay),
          line_of("--beta1", o.beta1),
          line_of("--beta2", o.beta2),
          line_of("--clip", o.clip),
          line_of("--seed", o.seed),
          line_of("--save-every", o.save_every),
          line_of("--eval-every", o.eval_every),
          line_of("--eval-batches", o.eval_batches),
          line_of("--sample-every", o.sample_every),
          line_of("--sample-bytes", o.sample_bytes),
          line_of("--prompt", quoted(o.prompt)),
          line_of("--max-bad-steps", o.max_bad_steps),
          line_of("data of checksum", data_hash)};
}

Status agree_on_options(Comm& comm, const std::vector<std::string>& mine) {
  TUTTI_ASSIGN(const std::vector<std::string> texts,
               training::gather_texts(comm, fmt::format("{}\n", fmt::join(mine, "\n"))));
  const std::vector<std::string> first = lines_of(texts.front());
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    const std::vector<std::string> other = lines_of(texts[rank]);
    if (other.size() != first.size())
      return peer_error(Code::kPeerFailed, static_cast<Rank>(rank),
                        "rank {} is another version of this program than rank 0", rank);
    const auto [here, there] = std::ranges::mismatch(first, other);
    if (here != first.end())
      return peer_error(Code::kPeerFailed, static_cast<Rank>(rank),
                        "rank 0 has {}, and rank {} has {}: give all ranks the same", *here, rank,
                        *there);
  }
  return ok_status();
}

}  // namespace tutti::trainer
