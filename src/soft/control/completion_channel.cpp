// SPDX-License-Identifier: MIT OR Apache-2.0
#include "soft/control/completion_channel.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <new>
#include <shared_mutex>

#include "soft/completer/completion_queue.hpp"
#include "soft/memory/memory_object.hpp"
#include "soft/shared/engine.hpp"
#include "soft/shared/objects.hpp"

namespace verbatim::engine {

namespace {

/// Creates a FIFO in the directory, where peers find it by its number. Returns -1 with errno if
/// that fails.
int make_fifo(const FilePath& path) noexcept {
  if (mkfifo(path.text, 0600) != 0) return -1;
  // Opened for writing too. A read then blocks while no peer has the FIFO open, instead of
  // returning end of file.
  const int fd = open(path.text, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) {
    const int failure = errno;
    unlink(path.text);
    errno = failure;
  }
  return fd;
}

/// Creates an unnamed pipe that is open for reading and writing, like a FIFO. Returns -1 with
/// errno.
int make_pipe() noexcept {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  const int failure = errno;
  close(ends[0]);
  close(ends[1]);
  errno = failure;
  return fd;
}

/// Publishes the pipe in the table of objects. Peers look for it there instead of in the directory.
bool publish_pipe(Engine& engine, CompletionChannel& channel) noexcept {
  struct stat info{};
  if (fstat(channel.raw.fd, &info) != 0) return false;
  const std::uint32_t place = engine.objects().publish(channel.raw.fd, info.st_ino, 0);
  channel.number = kPipeChannel | (place - 1);
  errno = ENOSPC;
  return place != 0;
}

bool is_pipe(const CompletionChannel& channel) noexcept {
  return (channel.number & kPipeChannel) != 0;
}

FilePath fifo_of(Engine& engine, const CompletionChannel& channel) noexcept {
  return engine.directory().path_of('c', engine.own().slot(), channel.number);
}

/// Opens the FIFO or pipe again, so that it never waits, whatever the program does with its
/// descriptor. We write our own messages there. Returns false with errno if that fails.
bool open_again(Engine& engine, CompletionChannel& channel) noexcept {
  FilePath path;
  if (is_pipe(channel))
    std::snprintf(path.text, sizeof path.text, "/proc/self/fd/%d", channel.raw.fd);
  else
    path = fifo_of(engine, channel);
  channel.drain_fd = open(path.text, O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (channel.drain_fd < 0) return false;
  errno = ENOMEM;
  return engine.self().add_own_channel(channel.number, channel.drain_fd);
}

/// Removes the FIFO or pipe, and closes its descriptors.
void close_channel(Engine& engine, const CompletionChannel& channel) noexcept {
  engine.self().remove_own_channel(channel.number);
  if (is_pipe(channel))
    engine.objects().withdraw((channel.number & ~kPipeChannel) + 1);
  else
    unlink(fifo_of(engine, channel).text);
  if (channel.drain_fd >= 0) close(channel.drain_fd);
  close(channel.raw.fd);
}

}  // namespace

ibv_comp_channel* create_channel(ibv_context* raw) noexcept {
  Context& context = Context::of(raw);
  auto channel = std::unique_ptr<CompletionChannel>{new (std::nothrow) CompletionChannel{}};
  if (channel == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  channel->number = context.engine->next_channel.fetch_add(1);
  Engine& engine = *context.engine;
  channel->raw.fd = make_fifo(fifo_of(engine, *channel));
  if (channel->raw.fd < 0 && (errno == EACCES || errno == EPERM)) {
    // A process that dropped its privileges after it opened the device may not create files there.
    channel->raw.fd = make_pipe();
    if (channel->raw.fd >= 0 && !publish_pipe(engine, *channel)) {
      close(channel->raw.fd);
      channel->raw.fd = -1;
    }
  }
  if (channel->raw.fd < 0) return nullptr;
  if (!open_again(engine, *channel)) {
    const int failure = errno;
    close_channel(engine, *channel);
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
  close_channel(*context.engine, *channel);
  context.objects.fetch_sub(1);
  delete channel;
  return 0;
}

namespace {

struct Message {
  std::uint32_t queue;
  std::uint32_t generation;
};

/// The channel filled up while the message was out of it: it is written when there is room.
void write_later(Engine& engine, const Message& message) noexcept {
  if (engine.completion_queues.at(message.queue) == nullptr) return;
  engine.segment().completion_queues[message.queue].unheard.store(1);
  engine.segment().attention.store(1);
}

void drop_and_keep(Engine& engine, CompletionChannel& channel, std::uint32_t queue) noexcept {
  const std::lock_guard lock{channel.drain_mutex};
  // Reads each pending message once. Messages of other queues go back to the end of the pipe. This
  // does not call read() and write(), because they are cancellation points.
  int pending = 0;
  if (ioctl(channel.drain_fd, FIONREAD, &pending) != 0) return;
  for (auto left = static_cast<std::size_t>(pending) / sizeof(Message); left > 0; --left) {
    Message message{};
    if (syscall(SYS_read, channel.drain_fd, &message, sizeof message) != sizeof message) return;
    if (message.queue == queue) continue;
    if (syscall(SYS_write, channel.drain_fd, &message, sizeof message) < 0)
      write_later(engine, message);
  }
}

}  // namespace

void drop_messages(ibv_comp_channel& raw, std::uint32_t queue) noexcept {
  Engine& engine = *Context::of(raw.context).engine;
  drop_and_keep(engine, reinterpret_cast<CompletionChannel&>(raw), queue);
  engine.channel_has_room();
}

int get_completion_event(ibv_comp_channel* channel, ibv_cq** queue, void** user) {
  Engine& engine = *Context::of(channel->context).engine;
  for (;;) {
    std::uint32_t message[2];
    // Blocks or not, depending on how the program set up the descriptor.
    const ssize_t size = ::read(channel->fd, message, sizeof message);
    if (size != static_cast<ssize_t>(sizeof message)) return -1;
    engine.channel_has_room();
    // Whoever destroys the queue takes it exclusively. So either it waits until this event is
    // acknowledged, or the message is out of date here.
    const std::shared_lock alive{engine.lifetime};
    CompletionQueue* const found = engine.completion_queues.at(message[0]);
    // The message is invalid, or belongs to a queue that is gone. The program does not see it.
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
