// SPDX-License-Identifier: MIT OR Apache-2.0
// A C++ program that does not use RDMA, but uses what a second C++ runtime in the process could
// break: exceptions, streams, locales, threads, fork. Its output must not change.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <iterator>
#include <locale>
#include <new>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

/// Until no other thread is listed, 30 s at most: the kernel may list one for a moment after it was
/// joined.
void wait_until_alone() {
  namespace fs = std::filesystem;
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds{30};
  const fs::path threads{"/proc/self/task"};
  while (std::distance(fs::directory_iterator{threads}, {}) > 1 && Clock::now() < end) {
  }
}

/// The lines of /proc about threads and signals. A library that does nothing changes none of them.
void print_status() {
  std::ifstream file{"/proc/self/status"};
  for (std::string line; std::getline(file, line);)
    if (std::regex_search(line, std::regex{"^(Threads|SigBlk|SigIgn|SigCgt|FDSize):"}))
      std::cout << line << '\n';
}

int depth(int n) {
  if (n == 0) throw std::runtime_error{"from the bottom"};
  return depth(n - 1) + 1;
}

}  // namespace

int main() {
  print_status();
  try {
    std::cout << depth(10) << '\n';
  } catch (const std::exception& caught) {
    std::cout << "caught: " << caught.what() << '\n';
  }
  try {
    // Through a thread, and back.
    std::async(std::launch::async, [] { return depth(3); }).get();
  } catch (const std::runtime_error& caught) {
    std::cout << "caught from a thread: " << caught.what() << '\n';
  }
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << 1234567.5 << ' ' << std::boolalpha << true;
  std::cout << text.str() << '\n';
  std::cout.flush();
  const pid_t child = fork();
  if (child == 0) {
    std::cout << "child of a fork" << std::endl;
    std::_Exit(7);
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::cout << "it said " << WEXITSTATUS(status) << '\n';
  wait_until_alone();
  print_status();
  return 3;
}
