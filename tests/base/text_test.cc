#include "pipewright/base/text.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <limits>

namespace pipewright {

using Names = std::vector<std::string>;

TEST_CASE("the nearest name, or none") {
  const Names names = {"layers", "hidden", "heads"};
  CHECK(nearest_name("layrs", names) == "layers");
  CHECK(nearest_name("LAYERS", names) == "layers");
  CHECK(nearest_name("headz", names) == "heads");
  CHECK(nearest_name("laeyrs", names) == "layers");
  CHECK(nearest_name("trian", Names{"plan", "train"}) == "train");
  CHECK(nearest_name("xyzzy", names) == "");
  CHECK(nearest_name("", names) == "");
  CHECK(nearest_name("layers", Names{}) == "");
  CHECK(nearest_name(std::string(100000, 'a'), names) == "");
  // Among equals the first.
  CHECK(nearest_name("cat", Names{"bat", "rat"}) == "bat");
}

TEST_CASE("a suggestion") {
  CHECK(suggestion("resnet5", Names{"vgg16", "resnet50"}) ==
        "did you mean \"resnet50\"?");
  CHECK(suggestion("q", Names{"vgg16", "resnet50"}) ==
        "known: vgg16, resnet50");
  CHECK(suggestion("q", Names{}) == "");
}

TEST_CASE("split, trim, join, lower_case") {
  CHECK(split("a,,b,", ',') == std::vector<std::string_view>{"a", "", "b", ""});
  CHECK(split("", ',') == std::vector<std::string_view>{""});
  CHECK(trim(" \t a b\r\n") == "a b");
  CHECK(trim(" \n") == "");
  CHECK(join(Names{"a", "b"}, ", ") == "a, b");
  CHECK(join(Names{}, ", ") == "");
  CHECK(lower_case("GPT-2 \xC3\x84") == "gpt-2 \xC3\x84");
}

TEST_CASE("numbers from text: the whole text or nothing") {
  CHECK(parse_integer("-12") == -12);
  CHECK(parse_integer("9223372036854775807") == INT64_MAX);
  for (const char* bad : {"", " 1", "1 ", "+1", "1.0", "0x1",
                          "9223372036854775808", "1e3", "--1"})
    CHECK_MESSAGE(!parse_integer(bad), bad);
  CHECK(parse_real("1e3") == 1000.0);
  CHECK(parse_real("-0.5") == -0.5);
  CHECK(parse_real("7") == 7.0);
  for (const char* bad : {"", " 1", "1 ", "+1", "1,5", "nan", "inf", "-inf",
                          "1e999", "0x1p3", "1e", "."})
    CHECK_MESSAGE(!parse_real(bad), bad);
}

TEST_CASE("quantities for people") {
  CHECK(to_text(Bytes(553430176)) == "553 MB");
  CHECK(to_text(Bytes(999)) == "999 B");
  CHECK(to_text(Bytes(999'999)) == "1 MB");
  CHECK(to_text(Bytes(0)) == "0 B");
  CHECK(to_text(Bytes(-2048)) == "-2.05 kB");
  CHECK(to_text(Bytes::max()) == "9223 PB");
  CHECK(to_text(BytesPerSecond(1.25e9)) == "1.25 GB/s");
  CHECK(to_text(Seconds(0.0123)) == "12.3 ms");
  CHECK(to_text(Seconds(0)) == "0 s");
  CHECK(to_text(Seconds(2.5e-7)) == "250 ns");
  CHECK(to_text(Seconds(86400)) == "86400 s");
  CHECK(to_text(Flops(4.09e9)) == "4.09 GFLOP");
  CHECK(to_text(FlopsPerSecond(15.7e12)) == "15.7 TFLOP/s");
  CHECK(to_text(BytesPerSecond(std::numeric_limits<double>::infinity())) ==
        "inf B/s");
}

TEST_CASE("plain numbers for people") {
  CHECK(to_text(0.03124) == "0.0312");
  CHECK(to_text(41.74) == "41.7");
  CHECK(to_text(1234.4) == "1234");
  CHECK(to_text(1.2e9) == "1.2e+09");
  CHECK(to_text(0.0) == "0");
  CHECK(to_text(3.14159, 5) == "3.1416");
  CHECK(with_thousands(138357544) == "138,357,544");
  CHECK(with_thousands(-123456) == "-123,456");
  CHECK(with_thousands(999) == "999");
  CHECK(counted(1, "layer") == "1 layer");
  CHECK(counted(1200, "layer") == "1,200 layers");
  CHECK(counted(0, "microbatch") == "0 microbatches");
  CHECK(counted(1, "microbatch") == "1 microbatch");
  CHECK(with_thousands(INT64_MIN) == "-9,223,372,036,854,775,808");
}

TEST_CASE("exact_text reads back as the same double") {
  CHECK(exact_text(3) == "3.0");
  CHECK(exact_text(0.1) == "0.1");
  CHECK(exact_text(1e300) == "1e+300");
  CHECK(exact_text(-0.0) == "-0.0");
  for (double x : {0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, 123456789.0,
                   -2.5e-7, 1e22})
    CHECK(std::strtod(exact_text(x).c_str(), nullptr) == x);
}

TEST_CASE("UTF-8") {
  CHECK(utf8_length("a") == 1);
  CHECK(utf8_length("\xC3\xA4") == 2);
  CHECK(utf8_length("\xE2\x82\xAC") == 3);
  CHECK(utf8_length("\xF0\x9F\x98\x80") == 4);
  for (const char* bad :
       {"", "\x80", "\xC3", "\xC3z", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80",
        "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"})
    CHECK_MESSAGE(utf8_length(bad) == 0, bad);
  CHECK(printable("a\tb\n\xC3\xA4") == "a\tb\n\xC3\xA4");
  CHECK(printable("\x1B[31m\x7F\xC2\x9B\xFF\r") == "?[31m????");
}

}  // namespace pipewright
