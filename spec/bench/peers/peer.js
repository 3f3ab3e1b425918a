// A worker of make bench-peers: locks of npm's packages, and etcd.
//
//     node peer.js redlock4|redlock5|redis-semaphore|etcd PORT...
//
// Answers each line of stdin with a line; times are of CLOCK_MONOTONIC, in us:
//     run CYCLES [IN_FLIGHT]  p50 p99 cycles_per_s cpu, as floor.c
//     take NAME               waits for the lock; when it was granted
//     give                    releases it; when that began
//     hold NAME TERM_MS       "held"; later "lost WHEN [END]" if the holder is told of a loss.
//                             END: when the lock ended by what the holder knows
const [kind, ...ports] = process.argv.slice(2)
const LEASE_MS = 30000
const now = () => Number(process.hrtime.bigint()) / 1e3

const connect = () => ports.map(port =>
    new (require('ioredis'))(port, '127.0.0.1').on('error', () => {}))

const systems = {
    redlock4() {
        const redlock = new (require('redlock4'))(connect(), { retryCount: -1 })
        return { take: name => redlock.lock(name, LEASE_MS), give: lock => lock.unlock() }
    },
    redlock5() {
        const redlock = new (require('redlock5').default)(connect(), { retryCount: -1 })
        return {
            take: name => redlock.acquire([name], LEASE_MS),
            give: lock => lock.release(),
            hold: (name, term, lost) => new Promise(held => {
                redlock.using([name], term, signal => new Promise(() => {
                    signal.addEventListener('abort', () => lost())
                    held()
                }))
            })
        }
    },
    'redis-semaphore'() {
        const clients = connect()
        const take = async (name, options) => {
            const mutex = new (require('redis-semaphore').RedlockMutex)(clients, name, options)
            await mutex.acquire()
            return mutex
        }
        return {
            take: name => take(name, { acquireTimeout: 60000 }),
            give: mutex => mutex.release(),
            hold: (name, term, lost) =>
                take(name, { lockTimeout: term, onLockLost: () => lost() })
        }
    },
    etcd
}

// etcd's own lock service, as `etcdctl lock` uses it, with one lease for the process, as the
// sessions of its Go client have. The package keeps the lease; it has no calls for this service.
function etcd() {
    const grpc = require('@grpc/grpc-js')
    const types = require('protobufjs').parse(`syntax = "proto3";
        message Lock { bytes name = 1; int64 lease = 2; }
        message Unlock { bytes key = 1; }
        message Locked { bytes key = 2; }`).root
    const hosts = ports.map(port => '127.0.0.1:' + port)
    const client = new grpc.Client('ipv4:' + hosts.join(','), grpc.credentials.createInsecure())
    const call = (method, message) => new Promise((resolve, reject) =>
        client.makeUnaryRequest('/v3lockpb.Lock/' + method,
            message => types.lookupType(method).encode(message).finish(),
            bytes => types.lookupType('Locked').decode(bytes), message,
            (err, reply) => err ? reject(err) : resolve(reply.key)))
    const etcd3 = new (require('etcd3').Etcd3)({ hosts: hosts.map(host => 'http://' + host) })
    const take = async (name, lease) =>
        call('Lock', { name: Buffer.from(name), lease: await lease.grant() })
    let session
    return {
        take: name => take(name, session = session || etcd3.lease(60)),
        give: key => call('Unlock', { key }),
        async hold(name, term, lost) {
            const lease = etcd3.lease(term / 1000)
            let end = now() + term * 1000
            lease.on('keepaliveSucceeded', () => { end = now() + term * 1000 })
            lease.on('lost', () => lost(end))
            await take(name, lease)
        }
    }
}

const system = systems[kind]()

// A cycle that fails is tried again, as a user would.
async function cycle(name) {
    try {
        await system.give(await system.take(name))
        return true
    } catch {
        await new Promise(resolve => setTimeout(resolve, 100))
    }
}

let lock
const commands = {
    async run(cycles, inFlight = 1) {
        const samples = [], cpu = process.cpuUsage(), from = now()
        let left = cycles
        await Promise.all(Array.from({ length: +inFlight }, async (_, i) => {
            while (left-- > 0) {
                const begun = now()
                while (!await cycle('bench:' + i)) {}
                samples.push(now() - begun)
            }
        }))
        const took = now() - from, used = process.cpuUsage(cpu)
        samples.sort((a, b) => a - b)
        return [samples[cycles >> 1], samples[Math.floor(cycles * 0.99)], cycles / took * 1e6,
            (used.user + used.system) / cycles].map(x => x.toFixed(3)).join(' ')
    },
    async take(name) {
        lock = await system.take(name)
        return now()
    },
    async give() {
        const from = now()
        await system.give(lock)
        return from
    },
    async hold(name, term) {
        await system.hold(name, +term, end => console.log('lost', now(), end || ''))
        return 'held'
    }
}

async function main() {
    for await (const line of require('readline').createInterface({ input: process.stdin })) {
        const [command, ...args] = line.split(' ')
        console.log(await commands[command](...args))
    }
}

main().then(() => process.exit(0), err => {
    console.error(`peer.js ${kind}: ${err.stack}`)
    process.exit(1)
})
