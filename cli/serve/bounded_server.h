// An HTTP server (cpp-httplib) whose requests are bounded in size and time, and
// whose answers know whether somebody still waits for them.
//
// The library limits each read; a viewer that sends a byte now and then, or
// headers without end, could hold a thread for ever. Here a request as a whole
// has a number of bytes and of seconds to wait for its viewer.

#pragma once

#include <httplib.h>

#include <functional>

namespace pipewright::cli {

class BoundedServer final : public httplib::Server {
 public:
  bool is_stopping() const { return is_stopping_; }
  // Ends listening, waiting and searching. May be called at any time.
  void stop_all();

  // Called within the answer to a request: whether its viewer hung up, or the
  // server stops. The function may be called later, from any thread.
  std::function<bool()> viewer_is_gone() const;

 private:
  bool process_and_close_socket(socket_t socket) override;

  std::atomic<bool> is_stopping_ = false;
};

inline constexpr std::size_t kMaxRequestBytes = 1 << 20;
inline constexpr double kMaxWaitingSeconds = 10;  // for one viewer, in all

}  // namespace pipewright::cli
