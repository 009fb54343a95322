import GATTClient
import HealthReadings
import Logging
import Synchronization

/// What a radio's parts share; it ends when the radio and everything that came of it has been let go of.
final class RadioContext: Sendable {
    let link: ServiceLink
    let discovery: Discovery
    /// Links are made one after the other.
    let connecting = Turn()
    /// One pairing at a time: a person answers one question at a time, and the daemon has one default agent.
    let pairing = Turn()
    let limits: RadioLimits
    let logger: Logger

    private struct Failures {
        var counts: [DeviceAddress: Int] = [:]
        var bonds = 0
    }

    private let failures = Mutex(Failures())
    private let told = Mutex(0)

    /// Of how many devices it is cheaper to ask for one's attributes object by object.
    static let mostTold = 100

    init(link: ServiceLink, limits: RadioLimits, logger: Logger) {
        self.link = link
        self.limits = limits
        self.logger = logger
        discovery = Discovery(link: link, limits: limits, logger: logger)
    }

    deinit {
        Task { [link] in await link.close() }
    }

    /// How many devices the daemon knew when it was last asked for all.
    var devices: Int { told.withLock { $0 } }

    func noteDevices(_ count: Int) { told.withLock { $0 = count } }

    /// How many connection attempts to a device have failed.
    func failures(of address: DeviceAddress) -> Int { failures.withLock { $0.counts[address] ?? 0 } }

    func noteFailure(of address: DeviceAddress) { failures.withLock { $0.counts[address, default: 0] += 1 } }

    /// How often bonds have come or gone through us: a device may have got another address, or another object.
    var bondChanges: Int { failures.withLock { $0.bonds } }

    func noteBondChange() async {
        failures.withLock { $0.bonds += 1 }
        await link.tellChange()
    }
}

/// How long the radio waits for what; BlueZ's and the specification's own limits are within these.
struct RadioLimits: Sendable {
    /// One attempt to connect: the kernel gives up after 20 s (`HCI_LE_CONN_TIMEOUT`), or after 40 s.
    var connect: Duration = .seconds(45)
    /// The services to be resolved, after the link is there.
    var resolve: Duration = .seconds(30)
    /// All attempts to connect together.
    var connectAltogether: Duration = .seconds(60)
    /// An ATT transaction ends after 30 s (Core Specification, Vol 3, Part F, 3.3.3); the daemon tells so, then.
    var transaction: Duration = .seconds(35)
    /// The daemon waits for 2 s by itself.
    var disconnect: Duration = .seconds(10)
    /// A pairing: 30 s for each step of the Security Manager (Vol 3, Part H, 3.4), and people.
    var pair: Duration = .seconds(150)
    /// A person who reads and types six digits.
    var person: Duration = .seconds(60)
    /// Between attempts at first; it doubles.
    var pause: Duration = .milliseconds(300)
    /// The daemon's own attempt to connect again, after a link was lost.
    var reconnecting: Duration = .seconds(1)
    /// Between the answer to what a lost link cut off and the news that it was lost.
    var farewell: Duration = .seconds(1)
    /// A private address becoming an identity address, after pairing.
    var identity: Duration = .seconds(3)
    /// Before discovery is tried again that could not begin; the last from then on.
    var listenAgain: [Duration] = [.seconds(5), .seconds(15), .seconds(30)]
    /// How long discovery runs until it begins anew.
    var listening: Duration = .seconds(30 * 60)
    /// Before a service that did not answer is looked at again; it doubles up to the longest.
    var look: Duration = .seconds(5)
    var longestLook: Duration = .seconds(30)
}
