// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/control/completion_channel.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <new>

#include "soft/shared/engine.hpp"
#include "soft/shared/objects.hpp"

namespace verbatim::engine {

ibv_comp_channel* create_channel(ibv_context* raw) noexcept {
  Context& context = Context::of(raw);
  auto channel = std::unique_ptr<CompletionChannel>{new (std::nothrow) CompletionChannel{}};
  if (channel == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  channel->number = context.engine->next_channel.fetch_add(1);
  const std::string path =
      context.engine->directory().file('c', context.engine->own().slot(), channel->number);
  if (mkfifo(path.c_str(), 0600) != 0) return nullptr;
  // For writing too: then reads block instead of seeing an end while no peer is there.
  channel->raw.fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (channel->raw.fd < 0) {
    const int failure = errno;
    unlink(path.c_str());
    errno = failure;
    return nullptr;
  }
  channel->raw.context = raw;
  context.objects.fetch_add(1);
  return &channel.release()->raw;
}

int destroy_channel(ibv_comp_channel* raw) noexcept {
  auto* const channel = reinterpret_cast<CompletionChannel*>(raw);
  if (channel->users.load() != 0) return EBUSY;
  Context& context = Context::of(raw->context);
  unlink(
      context.engine->directory().file('c', context.engine->own().slot(), channel->number).c_str());
  close(raw->fd);
  context.objects.fetch_sub(1);
  delete channel;
  return 0;
}

int get_completion_event(ibv_comp_channel* channel, ibv_cq** queue, void** user) noexcept {
  Engine& engine = *Context::of(channel->context).engine;
  for (;;) {
    std::uint32_t message[2];
    // Blocks, or not, as the program set up the descriptor.
    const ssize_t size = read(channel->fd, message, sizeof message);
    if (size != static_cast<ssize_t>(sizeof message)) return -1;
    CompletionQueue* const found = engine.completion_queues.at(message[0]);
    // Of a queue that is gone, or nonsense: not for the program.
    if (found == nullptr || found->shared->generation.load() != message[1] ||
        found->raw.channel != channel)
      continue;
    found->delivered.fetch_add(1);
    *queue = found->handle();
    *user = found->raw.cq_context;
    return 0;
  }
}

void acknowledge_completion_events(ibv_cq* raw, unsigned count) noexcept {
  CompletionQueue& queue = CompletionQueue::of(raw);
  queue.acknowledged.fetch_add(count);
  queue.acknowledged.notify_all();
}

}  // namespace verbatim::engine
