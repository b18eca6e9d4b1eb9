// What every network between ranks promises (rank_network.h): thousands of
// messages and texts of random sizes, tags and spaces between all ranks, whose
// order and bytes a list says that every rank makes from the same seed.

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/channels/ranks.h"

namespace pipewright {
namespace {

using namespace testing;

RankNetwork& network() { return session().network(); }

struct Sent {
  int from = 0, to = 0, tag = 0;
  std::size_t space = 0, size = 0;
  bool is_text = false;
  Delivery delivery = Delivery::Copied;
  unsigned seed = 0;

  std::string bytes() const {
    std::string all(size, ' ');
    std::uint32_t state = seed * 2654435761u + 1;
    for (char& byte : all) {
      state = state * 1664525u + 1013904223u;
      byte = static_cast<char>(state >> 24);
    }
    return all;
  }
};

// Mostly small, some of several megabytes, some empty.
std::size_t random_size(std::mt19937& draw) {
  const unsigned kind = draw() % 100;
  if (kind < 3) return 0;
  if (kind < 80) return 1 + draw() % 500;
  if (kind < 97) return 1 + draw() % 200'000;
  return 1 + draw() % 4'000'000;
}

std::vector<Sent> random_messages(std::mt19937& draw, int count,
                                  std::size_t num_spaces) {
  const auto ranks = static_cast<unsigned>(network().size());
  std::vector<Sent> all;
  for (int i = 0; i < count; ++i) {
    Sent& sent = all.emplace_back();
    sent.from = static_cast<int>(draw() % ranks);
    sent.to = static_cast<int>(
        (static_cast<unsigned>(sent.from) + 1 + draw() % (ranks - 1)) % ranks);
    sent.tag = draw() % 2 == 0 ? static_cast<int>(draw() % 3)
                               : network().largest_tag() - 1;
    sent.space = draw() % num_spaces;
    sent.is_text = draw() % 4 == 0;
    sent.size = random_size(draw);
    if (sent.is_text) sent.size %= 20'000;
    sent.delivery = draw() % 2 == 0 ? Delivery::Copied : Delivery::Received;
    sent.seed = static_cast<unsigned>(draw());
  }
  return all;
}

// This rank's sends and receives of the list, in an order of its own: only
// those with one key stay in theirs.
using Turns = std::vector<const Sent*>;
Turns own_turns(const std::vector<Sent>& all, std::mt19937& draw) {
  std::map<std::vector<int>, Turns> by_key;
  for (const Sent& each : all)
    if (each.from == network().rank() || each.to == network().rank())
      by_key[{each.from, each.to, each.tag, static_cast<int>(each.space),
              each.is_text}]
          .push_back(&each);
  std::vector<std::pair<Turns, std::size_t>> queues;
  for (auto& [key, queue] : by_key) queues.emplace_back(std::move(queue), 0);
  Turns turns;
  while (!queues.empty()) {
    auto& [queue, next] = queues[draw() % queues.size()];
    turns.push_back(queue[next++]);
    std::erase_if(queues, [](const auto& each) {
      return each.second == each.first.size();
    });
  }
  return turns;
}

class RandomRound {
 public:
  RandomRound(std::vector<std::unique_ptr<MessageSpace>>& spaces,
              std::mt19937& own_draw)
      : spaces_(spaces), draw_(own_draw), requests_(network().requests()) {}

  // All is posted before anything is waited for.
  int run(const std::vector<Sent>& all) {
    for (const Sent* each : own_turns(all, draw_)) {
      each->from == network().rank() ? send(*each) : receive(*each);
      if (draw_() % 5 == 0) test();
    }
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!requests_->empty() || !texts_.empty()) {
      REQUIRE(std::chrono::steady_clock::now() < deadline);
      test();
      take_texts();
    }
    for (const auto& [sent, bytes] : received_)
      wrong_ += bytes != sent->bytes();
    return wrong_;
  }

 private:
  void send(const Sent& sent) {
    const std::string& bytes = kept_.emplace_back(sent.bytes());
    under_way_.push_back(&sent);
    if (sent.is_text)
      spaces_[sent.space]->send_text(*requests_, sent.to, sent.tag,
                                     bytes.data(), bytes.size());
    else
      spaces_[sent.space]->send(*requests_, sent.to, sent.tag, bytes.data(),
                                bytes.size(), sent.delivery);
  }
  void receive(const Sent& sent) {
    if (sent.is_text) return texts_.push_back(&sent);
    std::string& bytes =
        received_.emplace_back(&sent, std::string(sent.size, '?')).second;
    under_way_.push_back(&sent);
    spaces_[sent.space]->receive(*requests_, sent.from, sent.tag, bytes.data(),
                                 bytes.size());
  }
  void test() {
    requests_->test([this](std::size_t at) {
      under_way_[at] = under_way_.back();
      under_way_.pop_back();
    });
    CHECK(requests_->size() == under_way_.size());
  }
  // The first of each key.
  void take_texts() {
    std::string text;
    std::vector<std::vector<int>> not_yet;
    for (std::size_t i = 0; i < texts_.size();) {
      const Sent& sent = *texts_[i];
      const std::vector<int> key = {static_cast<int>(sent.space), sent.from,
                                    sent.tag};
      if (std::find(not_yet.begin(), not_yet.end(), key) == not_yet.end() &&
          spaces_[sent.space]->next_text(sent.from, sent.tag, text)) {
        wrong_ += text != sent.bytes();
        texts_.erase(texts_.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        not_yet.push_back(key);
        ++i;
      }
    }
  }

  std::vector<std::unique_ptr<MessageSpace>>& spaces_;
  std::mt19937& draw_;
  std::unique_ptr<RequestList> requests_;
  std::deque<std::string> kept_;
  std::deque<std::pair<const Sent*, std::string>> received_;
  Turns under_way_, texts_;
  int wrong_ = 0;
};

TEST_CASE("random messages arrive whole and in order") {
  constexpr int kRounds = 40, kMessages = 150;
  std::mt19937 draw(5), own_draw(static_cast<unsigned>(network().rank()));
  std::vector<std::unique_ptr<MessageSpace>> spaces;
  for (int i = 0; i < 3; ++i) spaces.push_back(network().space_of_all());
  for (int round = 0; round < kRounds; ++round) {
    CAPTURE(round);
    const auto all = random_messages(draw, kMessages, spaces.size());
    CHECK(RandomRound(spaces, own_draw).run(all) == 0);
  }
  spaces[0]->barrier();
}

std::string waited_text(MessageSpace& space, int from, int tag) {
  std::string text;
  while (!space.next_text(from, tag, text)) std::this_thread::yield();
  return text;
}

void say(MessageSpace& space, int to, const std::string& text) {
  const auto requests = network().requests();
  space.send_text(*requests, to, 0, text.data(), text.size());
  requests->wait();
}

TEST_CASE("a send until it is received waits for its receive") {
  const auto space = network().space_of_all();
  const auto requests = network().requests();
  int number = 7;
  if (network().rank() == 0) {
    space->send(*requests, 1, 3, &number, sizeof(number), Delivery::Received);
    for (int i = 0; i < 1000; ++i) requests->test([](std::size_t) {});
    CHECK(requests->size() == 1);
    say(*space, 1, "post it");
    requests->wait();
  } else if (network().rank() == 1) {
    waited_text(*space, 0, 0);
    number = 0;
    space->receive(*requests, 0, 3, &number, sizeof(number));
    requests->wait();
    CHECK(number == 7);
  }
  space->barrier();
}

TEST_CASE("a text does not wait for its receiver") {
  const auto space = network().space_of_all();
  if (network().rank() == 0) {
    for (int i = 0; i < 50; ++i) say(*space, 1, std::to_string(i));
  }
  space->barrier();
  if (network().rank() == 1)
    for (int i = 0; i < 50; ++i)
      CHECK(waited_text(*space, 0, 0) == std::to_string(i));
}

TEST_CASE("a space of some ranks") {
  const int last = network().size() - 1;
  const auto some = network().space({0, last});
  CHECK((some != nullptr) ==
        (network().rank() == 0 || network().rank() == last));
  if (network().rank() == 0) say(*some, last, "to the last");
  if (network().rank() == last)
    CHECK(waited_text(*some, 0, 0) == "to the last");
  if (some) some->barrier();
}

TEST_CASE("a cancellation comes to all others, and to no other space") {
  const auto space = network().space_of_all();
  const auto first = network().cancellation(),
             second = network().cancellation();
  const auto requests = network().requests();
  space->barrier();
  if (network().rank() == 1) {
    second->send();
  } else {
    while (!second->has_come()) requests->test([](std::size_t) {});
  }
  CHECK(!first->has_come());
  space->barrier();
}

// Ranks of one host have one clock.
TEST_CASE("nobody leaves a barrier before all have come") {
  using Clock = std::chrono::steady_clock;
  const auto space = network().space_of_all();
  const auto now = [] { return Clock::now().time_since_epoch().count(); };
  for (int round = 0; round < 20; ++round) {
    const int late = round % network().size();
    if (network().rank() == late) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      for (int to = 0; to < network().size(); ++to)
        if (to != late) say(*space, to, std::to_string(now()));
    }
    space->barrier();
    const auto left = now();
    if (network().rank() != late)
      CHECK(left > std::stoll(waited_text(*space, late, 0)));
  }
}

}  // namespace
}  // namespace pipewright
