// The functions that need the model, and so LibTorch. Builds without LibTorch use
// without_torch.cpp, which says how to get it.
#pragma once

#include "tools/train/options.hpp"
#include "tutti/error.hpp"

namespace tutti::trainer {

/// Whether this program can train.
Status check_can_train();

/// Joins the job that a launcher started, or trains alone, as one rank of it.
Status train_here(const Options& options);

}  // namespace tutti::trainer
