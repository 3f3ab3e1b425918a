"""A worker of make bench-peers: redis-py's Lock, ZooKeeper by Kazoo, PostgreSQL by psycopg2.

    python3 peer.py redis-py|zookeeper|postgresql PORT...

Takes the lines of peer.js, and answers in the same way. Each lock in flight has a thread.
"""
import logging
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

LEASE = 30
kind, ports = sys.argv[1], sys.argv[2:]
local = threading.local()


def now():
    return time.monotonic_ns() / 1000


class RedisPy:
    def __init__(self):
        import redis
        self.client = redis.Redis(host="127.0.0.1", port=int(ports[0]))

    def take(self, name):
        lock = self.client.lock(name, timeout=LEASE)
        lock.acquire()
        return lock

    def give(self, lock):
        lock.release()


class ZooKeeper:
    client = None

    def take(self, name, session=10):          # Kazoo's default
        if not self.client:
            from kazoo.client import KazooClient
            self.client = KazooClient(",".join("127.0.0.1:" + port for port in ports),
                                      timeout=session, randomize_hosts=False)
            self.client.start(timeout=60)
        lock = self.client.Lock("/" + name)
        lock.acquire()
        return lock

    def give(self, lock):
        lock.release()

    def hold(self, name, term, lost):
        self.take(name, term / 1000)
        self.client.add_listener(lambda state: state != "CONNECTED" and lost())


class PostgreSQL:
    """Locks belong to a connection; each thread has one."""

    def execute(self, function, name):
        if not hasattr(local, "cursor"):
            import psycopg2
            connection = psycopg2.connect(host="127.0.0.1", port=ports[0], user="bench",
                                          dbname="postgres")
            connection.autocommit = True
            local.cursor = connection.cursor()
        local.cursor.execute("SELECT %s(hashtext(%%s))" % function, (name,))
        return name

    def take(self, name):
        return self.execute("pg_advisory_lock", name)

    def give(self, name):
        self.execute("pg_advisory_unlock", name)


logging.disable()
system = {"redis-py": RedisPy, "zookeeper": ZooKeeper, "postgresql": PostgreSQL}[kind]()
threads = ThreadPoolExecutor(1024)


def cycle(name):
    """Whether it succeeded: a cycle that fails is tried again, as a user would."""
    try:
        system.give(system.take(name))
        return True
    except Exception:
        time.sleep(0.1)
        return False


def run(cycles, in_flight=1):
    cycles, in_flight, samples = int(cycles), int(in_flight), []

    def loop(i):
        for _ in range(i, cycles, in_flight):
            begun = now()
            while not cycle("bench:%d" % i):
                pass
            samples.append(now() - begun)

    cpu, begun = time.process_time(), now()
    list((map if in_flight == 1 else threads.map)(loop, range(in_flight)))
    took, cpu = now() - begun, (time.process_time() - cpu) * 1e6
    samples.sort()
    return "%.3f %.3f %.3f %.3f" % (samples[cycles // 2], samples[int(cycles * 0.99)],
                                    cycles / took * 1e6, cpu / cycles)


def take(name):
    local.lock = system.take(name)
    return "%.3f" % now()


def give():
    begun = now()
    system.give(local.lock)
    return "%.3f" % begun


def hold(name, term):
    system.hold(name, int(term), lambda: print("lost %.3f" % now(), flush=True))
    return "held"


for line in sys.stdin:
    command, *args = line.split()
    print({"run": run, "take": take, "give": give, "hold": hold}[command](*args), flush=True)
