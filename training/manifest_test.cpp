#include "training/manifest.hpp"

#include <gmock/gmock.h>

namespace tutti::training {
namespace {

using ::testing::HasSubstr;

Manifest example() {
  Manifest manifest;
  manifest.step = 50;
  manifest.counters = {{"samples", 12800}};
  manifest.parameters = {{"in", {20, 3}}, {"bias", {20}, false}};
  manifest.pieces = {{"parameter", 0, 0, 40, "rank_0.bin", 0, 1},
                     {"parameter", 0, 40, 20, "rank_1.bin", 0, 2},
                     {"parameter", 1, 0, 20, "rank_1.bin", 80, 0xffffffffU}};
  return manifest;
}

std::string manifest_refusal(const Manifest& manifest) {
  const auto parsed = parse_manifest(manifest_json(manifest));
  if (parsed) return "";
  EXPECT_EQ(parsed.error().code, Code::kWrongData);
  return parsed.error().what;
}

/// The example's text with one thing changed.
std::string refusal_with(const std::string& old, const std::string& changed) {
  std::string text = manifest_json(example());
  const std::size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  text.replace(at, old.size(), changed);
  const auto parsed = parse_manifest(text);
  return parsed ? "" : parsed.error().what;
}

TEST(Manifest, IsReadAsItWasWritten) {
  const auto parsed = parse_manifest(manifest_json(example()));
  ASSERT_TRUE(parsed) << parsed.error().what;
  EXPECT_EQ(*parsed, example());
}

TEST(Manifest, MissesNoElementAndHasNoneTwice) {
  Manifest manifest = example();
  manifest.pieces.pop_back();
  EXPECT_THAT(manifest_refusal(manifest),
              HasSubstr("of 'bias' of kind 'parameter' the elements from 0"));
  manifest = example();
  manifest.pieces[1].count = 19;
  EXPECT_THAT(manifest_refusal(manifest),
              HasSubstr("of 'in' of kind 'parameter' the elements from 59"));
  manifest = example();
  manifest.pieces.push_back(manifest.pieces[0]);
  EXPECT_THAT(manifest_refusal(manifest), HasSubstr("there twice"));
  manifest = example();
  manifest.pieces.push_back(manifest.pieces[2]);
  EXPECT_THAT(manifest_refusal(manifest), HasSubstr("there twice"));
  manifest = example();
  manifest.pieces.push_back({"first", 0, 0, 60, "rank_0.bin", 160, 3});
  EXPECT_THAT(manifest_refusal(manifest), HasSubstr("of 'bias' of kind 'first'"));
}

TEST(Manifest, NamesWhatIsWrong) {
  EXPECT_THAT(parse_manifest("").error().what, HasSubstr("no manifest"));
  EXPECT_THAT(parse_manifest("[[[[[[]]]]]]").error().what, HasSubstr("no manifest"));
  EXPECT_THAT(refusal_with("\"version\": 1", "\"version\": 2"), HasSubstr("version 2"));
  EXPECT_THAT(refusal_with("\"step\": 50", "\"step\": -50"), HasSubstr("lacks its step"));
  EXPECT_THAT(refusal_with("12800", "\"many\""), HasSubstr("counter 'samples'"));
  EXPECT_THAT(refusal_with("\"decays\": true", "\"decays\": 1"), HasSubstr("parameter 0"));
  EXPECT_THAT(refusal_with("20,\n    3", "20,\n    -3"), HasSubstr("a dimension that is none"));
  EXPECT_THAT(refusal_with("rank_1.bin", "../rank_1"), HasSubstr("'../rank_1'"));
  EXPECT_THAT(refusal_with("rank_1.bin", ".."), HasSubstr("'..'"));
  EXPECT_THAT(refusal_with("4294967295", "4294967296"), HasSubstr("checksum"));
  EXPECT_THAT(refusal_with("\"count\": 40", "\"count\": 0"), HasSubstr("piece 0"));
  EXPECT_THAT(refusal_with("\"count\": 40", "\"count\": 18446744073709551615"),
              HasSubstr("which has 60"));
  EXPECT_THAT(refusal_with("\"count\": 40", "\"count\": 4.5"), HasSubstr("no such thing"));
}

}  // namespace
}  // namespace tutti::training
