// The clusters of textbook.py as a SimGrid program: an actor for each worker, a mutex for each port.
//
//   simgrid KIND WORKERS UPDATES NEEDED HOLD DRAWS
//
// HOLD: ns that a port needs for a message; DRAWS: a file with as many compute times (ns, 64 bits)
// of each worker as it needs at most, worker by worker. Prints the end of the run in seconds.

#include <cstdint>
#include <cstdio>
#include <deque>
#include <fstream>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

struct Cluster {
  bool synchronous;
  std::int64_t workers, needed, left;
  double hold;  // s
  std::int64_t draws_each = 0, step = 0;
  std::vector<std::int64_t> draws;
  std::deque<std::int64_t> pushed, tokens;
  sg4::MutexPtr out = sg4::Mutex::create(), into = sg4::Mutex::create();
  sg4::SemaphorePtr inbox = sg4::Semaphore::create(0), queue = sg4::Semaphore::create(0);
};

static void message(const sg4::MutexPtr& port, double hold) {
  port->lock();
  sg4::this_actor::sleep_for(hold);
  port->unlock();
}

static void worker(Cluster* all, std::int64_t rank) {
  std::int64_t label = 0;
  for (std::int64_t nth = rank * all->draws_each; nth < (rank + 1) * all->draws_each; nth++) {
    message(all->out, all->hold);
    sg4::this_actor::sleep_for(1e-9 * all->draws[nth]);
    message(all->into, all->hold);
    all->pushed.push_back(label);
    all->inbox->release();
    if (all->synchronous) {
      all->queue->acquire();
      label = all->tokens.front();
      all->tokens.pop_front();
    }
  }
}

static void server(Cluster* all) {
  for (; all->left > 0; all->left--) {
    for (std::int64_t fresh = 0; fresh < all->needed;) {
      all->inbox->acquire();
      fresh += !all->synchronous || all->pushed.front() >= all->step;
      all->pushed.pop_front();
    }
    all->step++;
    for (std::int64_t token = 0; all->synchronous && token < all->workers; token++) {
      all->tokens.push_back(all->step);
      all->queue->release();
    }
  }
  std::printf("%.9f\n", sg4::Engine::get_clock());
  sg4::Actor::kill_all();
}

int main(int count, char** given) {
  sg4::Engine engine(&count, given);
  if (count != 7) return 2;
  Cluster all{std::string(given[1]) == "sync_replicas", std::stoll(given[2]), std::stoll(given[4]),
              std::stoll(given[3]), 1e-9 * std::stoll(given[5])};
  std::ifstream file(given[6], std::ios::binary | std::ios::ate);
  all.draws.resize(static_cast<std::size_t>(file.tellg()) / sizeof(std::int64_t));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(all.draws.data()),
            static_cast<std::streamsize>(all.draws.size() * sizeof(std::int64_t)));
  all.draws_each = static_cast<std::int64_t>(all.draws.size()) / all.workers;
  if (all.synchronous)  // the first of them are there before anything happens
    for (std::int64_t token = 0; token < all.needed; token++) {
      all.tokens.push_back(0);
      all.queue->release();
    }
  sg4::Host* host = sg4::create_full_zone("zone")->create_host("host", 1e9);
  engine.get_netzone_root()->seal();
  for (std::int64_t rank = 0; rank < all.workers; rank++)
    sg4::Actor::create("worker", host, worker, &all, rank);
  sg4::Actor::create("server", host, server, &all);
  engine.run();
  return 0;
}
