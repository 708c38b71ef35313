#include "tools/train/model.hpp"

#include <filesystem>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "training/torch/distributed.hpp"

namespace tutti::trainer {
namespace {

const ModelShape kSmall = {.layers = 2, .heads = 2, .width = 8, .context = 6};

TEST(Model, HasTheParametersThatPredictionsCount) {
  for (const ModelShape& shape : {kSmall, shape_of_size("1m")}) {
    const auto model = make_model(shape, 1);
    ASSERT_TRUE(model) << model.error().what;
    const auto trained = training::trained_parameters(**model);
    ASSERT_TRUE(trained) << trained.error().what;
    EXPECT_EQ(training::difference(trained->table, *parameters_of(shape)), "");
  }
}

TEST(Examples, PredictTheByteThatFollowsEach) {
  std::vector<std::uint8_t> text(20);
  std::iota(text.begin(), text.end(), std::uint8_t{100});
  const auto windows = Windows::create(text, 6, "text");
  const std::size_t begins[] = {2, 13};
  const Examples examples = examples_at(*windows, begins);
  EXPECT_EQ(examples.tokens.sizes(), (std::vector<std::int64_t>{2, 6}));
  EXPECT_EQ(examples.tokens[0][0].item<int>(), 102);
  EXPECT_EQ(examples.targets[0][0].item<int>(), 103);
  EXPECT_EQ(examples.tokens[1][5].item<int>(), 118);
  EXPECT_EQ(examples.targets[1][5].item<int>(), 119);
}

TEST(Model, ComesBackFromACheckpoint) {
  const std::filesystem::path folder =
      testing::TempDir() + fmt::format("model_test.{}", ::getpid());
  const auto model = make_model(kSmall, 3);
  const auto trained = training::trained_parameters(**model);
  training::CheckpointHead head{5, {}};
  add_counters(kSmall, head.counters);
  std::vector<training::OwnedPiece> owned;
  for (training::ParameterId id = 0; id < trained->table.size(); ++id)
    owned.push_back({"parameter",
                     id,
                     0,
                     {trained->tensors[id].data_ptr<float>(), trained->table.elements(id)}});
  auto comms = Comm::all(1);
  std::filesystem::create_directories(folder);
  ASSERT_TRUE(training::save_checkpoint(folder, head, trained->table, owned, (*comms)[0]));
  const auto loaded = load_model(*training::Checkpoint::open(folder));
  ASSERT_TRUE(loaded) << loaded.error().what;
  const auto values = (*loaded)->named_parameters();
  for (const auto& parameter : (*model)->named_parameters())
    EXPECT_TRUE(parameter.value().equal(values[parameter.key()])) << parameter.key();
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tutti::trainer
