// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file What the library passes to the device, request by request, before any device sees it.
///
/// While the object lives, the data verbs of one context copy each request and answer as the test
/// wants. Only one object at a time, because the verbs are plain functions.
#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <limits>
#include <vector>

namespace verbatim::test {

template <class Request>
struct Captured {
  Request request;  ///< Its sg_list is gone: see `elements`.
  std::vector<ibv_sge> elements;
};

class PostCapture {
 public:
  explicit PostCapture(ibv_context* context) : context_(context), before_(context->ops) {
    active = this;
    context->ops.post_send = &send;
    context->ops.post_recv = &receive;
    context->ops.post_srq_recv = &receive_shared;
  }
  ~PostCapture() {
    context_->ops = before_;
    active = nullptr;
  }
  PostCapture(const PostCapture&) = delete;
  PostCapture& operator=(const PostCapture&) = delete;

  std::vector<Captured<ibv_send_wr>> sends;
  std::vector<Captured<ibv_recv_wr>> receives;
  std::size_t calls = 0;
  /// How many requests are taken; the next one is refused with `refusal`.
  std::size_t accept = std::numeric_limits<std::size_t>::max();
  int refusal = ENOMEM;
  bool name_rejected = true;  ///< Some drivers do not say which request they refused.

 private:
  static inline PostCapture* active = nullptr;

  template <class Request>
  int take(Request* request, Request** rejected, std::vector<Captured<Request>>& into) {
    ++calls;
    for (; request != nullptr; request = request->next) {
      if (accept == 0) {
        if (name_rejected) *rejected = request;
        return refusal;
      }
      --accept;
      into.push_back({*request, {request->sg_list, request->sg_list + request->num_sge}});
    }
    return 0;
  }
  static int send(ibv_qp*, ibv_send_wr* request, ibv_send_wr** rejected) {
    return active->take(request, rejected, active->sends);
  }
  static int receive(ibv_qp*, ibv_recv_wr* request, ibv_recv_wr** rejected) {
    return active->take(request, rejected, active->receives);
  }
  static int receive_shared(ibv_srq*, ibv_recv_wr* request, ibv_recv_wr** rejected) {
    return active->take(request, rejected, active->receives);
  }

  ibv_context* context_;
  ibv_context_ops before_;
};

}  // namespace verbatim::test
