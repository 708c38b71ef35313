// Predicts how long a step takes over a slow link between hosts, from what its plan sends.
#pragma once

#include <string>

#include "training/plan.hpp"
#include "tutti/error.hpp"

namespace tutti::trainer {

/// Bytes a second of "100mbit", "1gbit" or "2.5gbit", as tc writes rates: bits a second.
/// kInvalidArgument names the text.
Result<double> parse_link(const std::string& text);

/// Seconds of a step whose passes compute for `compute` seconds in all, one third of it forward, in
/// proportion to parameters. Ranks lie on `hosts` in equal blocks, each with a link of so many
/// bytes a second to the others; inside a host sending takes no time. The link does one thing at a
/// time, in the order in which the engine asks for it: gathers one unit ahead of their use,
/// gradients as soon as they are there, and at last the parameters that have been stepped.
double step_seconds(const training::Plan& plan, int hosts, double bytes_per_second, double compute);

}  // namespace tutti::trainer
