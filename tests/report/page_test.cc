// The page as text: data cannot end its script, and nothing comes from
// elsewhere.

#include "pipewright/report/page.h"

#include <doctest/doctest.h>

namespace pipewright {
namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1))
    ++count;
  return count;
}

// The data as the page has it.
std::string data_of(const std::string& text) {
  const std::string begin = "id=\"report-data\">";
  const std::size_t from = text.find(begin) + begin.size();
  return text.substr(from, text.find("</script>", from) - from);
}

}  // namespace

TEST_CASE("text of the data and the title is escaped") {
  const std::string plain = page("title", Json::object());
  for (const std::string hostile :
       {"</script><script>alert(1)</script>", "<!--", "<style>", "]]>",
        "\"';--></title>", "&lt;"}) {
    CAPTURE(hostile);
    const Json data = Json::object().set("name", hostile);
    const std::string text = page(hostile, data);
    for (const std::string tag :
         {"<script", "</script", "<!--", "<style", "</title", "<noscript"})
      CHECK(count_of(text, tag) == count_of(plain, tag));
    const auto read = parse_json(data_of(text), "page");
    REQUIRE(read);
    CHECK(*read->find("name")->if_string() == hostile);
  }
}

TEST_CASE("style and script are embedded, and load nothing") {
  const std::string text = page("title", Json::object());
  CHECK(kPageStyle.find("--action-F") != std::string_view::npos);
  CHECK(kPageScript.find("class TimelineView") != std::string_view::npos);
  CHECK(kPageScript.find("\nimport ") == std::string_view::npos);
  CHECK(kPageScript.find("\nexport ") == std::string_view::npos);
  CHECK(text.find("default-src 'none'") != std::string::npos);
  for (const std::string from : {" src=", "@import", "url("})
    CHECK(count_of(text, from) == 0);
  // The script can ask a server, and the policy of a file's page forbids it.
  CHECK(text.find("connect-src") == std::string::npos);
  CHECK(page("title", Json::object(), PageUse::Live)
            .find("connect-src 'self'\">") != std::string::npos);
}

}  // namespace pipewright
