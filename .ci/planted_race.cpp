// Two threads write one int without any order: a thread sanitizer that works must report it.
#include <thread>

int main() {
  int value = 0;
  std::thread other([&value] { value = 1; });
  value = 2;
  other.join();
  return value == 3;
}
