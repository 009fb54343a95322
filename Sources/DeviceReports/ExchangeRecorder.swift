import GATTClient
import GATTProfiles
import HealthReadings
import Synchronization

/// Notes what passes between the gateway and the devices of a radio, or of a capture.
public final class ExchangeRecorder: Sendable {
    private struct State {
        var exchanges: [Exchange] = []
        var heard: Advertisement?
    }

    private let state = Mutex(State())
    private let readsMore: Bool
    fileprivate let now: @Sendable () -> Instant?

    /// The most steps of a contact that are kept: a device that never stops cannot fill the memory.
    static let mostSteps = 100_000
    /// The longest contact of which steps are kept: a day, in milliseconds.
    static let longestContact: Int64 = 86_400_000

    /// Creates a recorder.
    ///
    /// - Parameters:
    ///   - readsMore: also reads what tells a model: the device information, and what its services can do.
    ///   - now: the time of what has none of its own; `nil` if it happens when the last thing did, as in a capture.
    public init(readsMore: Bool = true, now: @escaping @Sendable () -> Instant? = { .systemClock }) {
        self.readsMore = readsMore
        self.now = now
    }

    /// The contacts so far, in the order in which they began.
    public var exchanges: [Exchange] { state.withLock(\.exchanges) }
    /// The last advertisement that was heard of a device that is never connected; `nil` if there was none.
    public var heard: Advertisement? { state.withLock(\.heard) }

    /// A device whose contacts are noted.
    public func recording(_ peripheral: any Peripheral) -> any Peripheral { RecordedPeripheral(peripheral, self) }

    fileprivate func note(_ advertisement: Advertisement) { state.withLock { $0.heard = advertisement } }

    fileprivate func begin(_ exchange: Exchange) -> Int {
        state.withLock { state in
            state.exchanges.append(exchange)
            return state.exchanges.count - 1
        }
    }

    fileprivate func change(_ place: Int, _ body: (inout Exchange) -> Void) {
        state.withLock { state in
            guard state.exchanges.indices.contains(place) else { return }
            body(&state.exchanges[place])
        }
    }

    fileprivate func add(_ action: Exchange.Action, at moment: Instant?, to place: Int) {
        let moment = moment ?? now()
        change(place) { exchange in
            guard exchange.steps.count < Self.mostSteps else { return }
            // A table may have more characteristics than are listed.
            let isListed = action.handle.map { exchange.characteristic($0) != nil } ?? true
            guard isListed || exchange.characteristics.count < ModelReport.mostCharacteristics else { return }
            let last = exchange.steps.last?.milliseconds ?? 0
            let elapsed = moment.map { ($0.microseconds - exchange.start.microseconds) / 1000 } ?? last
            let milliseconds = max(last, elapsed)
            guard milliseconds <= Self.longestContact else { return }
            exchange.steps.append(.init(milliseconds, action))
        }
    }

    /// What is read beside what a reader asks for, of a device that is bonded or not.
    fileprivate func wanted(_ characteristics: [Characteristic], isPaired: Bool) -> [Characteristic] {
        guard readsMore else { return [] }
        return characteristics.filter { characteristic in
            guard characteristic.properties?.contains(.read) == true, let number = characteristic.uuid.assignedNumber
            else { return false }
            return DeviceInformationString.Kind(rawValue: number) != nil || number == 0x2A50
                || isPaired && StandardValues.features.contains(characteristic.uuid)
        }
    }
}

/// A radio whose devices' contacts are noted.
package struct RecordedRadio: Radio {
    private let radio: any Radio
    private let recorder: ExchangeRecorder

    /// Creates a radio over another.
    package init(_ radio: any Radio, _ recorder: ExchangeRecorder) {
        self.radio = radio
        self.recorder = recorder
    }

    private func recorded(
        _ stream: AsyncThrowingStream<any Peripheral, any Error>
    ) -> AsyncThrowingStream<any Peripheral, any Error> {
        let recorder = recorder
        return mapped(stream) { recorder.recording($0) }
    }

    private func mapped<Element: Sendable>(
        _ stream: AsyncThrowingStream<Element, any Error>, _ change: @escaping @Sendable (Element) -> Element
    ) -> AsyncThrowingStream<Element, any Error> {
        .producing { yield in
            for try await element in stream { yield(change(element)) }
        }
    }

    package func peripherals() -> AsyncThrowingStream<any Peripheral, any Error> { recorded(radio.peripherals()) }
    package func adapterStates() -> AsyncStream<AdapterState> { radio.adapterStates() }
    package func advertisements() -> AsyncThrowingStream<Advertisement, any Error> { radio.advertisements() }
    package func advertisements(
        of addresses: Set<DeviceAddress>
    ) -> AsyncThrowingStream<Advertisement, any Error> {
        let recorder = recorder
        return mapped(radio.advertisements(of: addresses)) { advertisement in
            recorder.note(advertisement)
            return advertisement
        }
    }
    package func peripherals(_ addresses: Set<DeviceAddress>) -> AsyncThrowingStream<any Peripheral, any Error> {
        recorded(radio.peripherals(addresses))
    }
    package func peripheral(_ address: DeviceAddress, within timeout: Duration) async throws -> any Peripheral {
        recorder.recording(try await radio.peripheral(address, within: timeout))
    }
    package func pair(_ address: DeviceAddress, within timeout: Duration, agent: any PairingAgent) async throws -> Bond
    {
        try await radio.pair(address, within: timeout, agent: agent)
    }
    @discardableResult package func unpair(_ address: DeviceAddress) async throws -> Bool {
        try await radio.unpair(address)
    }
    package func bonds() async throws -> [Bond] { try await radio.bonds() }
    package func bond(with address: DeviceAddress) async throws -> Bond? { try await radio.bond(with: address) }
    package func bondedElsewhere(among addresses: Set<DeviceAddress>) async throws -> Set<DeviceAddress> {
        try await radio.bondedElsewhere(among: addresses)
    }
    package func connectionChanges(
        _ addresses: Set<DeviceAddress>
    ) -> AsyncThrowingStream<ConnectionChange, any Error> {
        radio.connectionChanges(addresses)
    }
}

/// A device whose contacts are noted.
private final class RecordedPeripheral: Peripheral {
    private struct State {
        /// The contact that goes on, by its place among the recorder's.
        var place: Int?
        var hasReadMore = false
        /// The handle by which each characteristic notifies: values come with their UUID only.
        var notifying: [BluetoothUUID: UInt16] = [:]
        var stopwatch = ContinuousClock.now
    }

    private let other: any Peripheral
    private let recorder: ExchangeRecorder
    private let state = Mutex(State())

    init(_ other: any Peripheral, _ recorder: ExchangeRecorder) {
        self.other = other
        self.recorder = recorder
    }

    var advertisement: Advertisement { other.advertisement }
    var answerSource: AnswerSource { other.answerSource }

    private func add(_ action: Exchange.Action, at moment: Instant? = nil) {
        guard let place = state.withLock(\.place) else { return }
        recorder.add(action, at: moment, to: place)
    }

    /// Milliseconds since the stopwatch was last looked at; `nil` in a capture, where waiting takes no time.
    private func lap() -> Int64? {
        let elapsed = state.withLock { state in
            let began = state.stopwatch
            state.stopwatch = .now
            return began.duration(to: state.stopwatch)
        }
        return recorder.now() == nil ? nil : Int64(elapsed / .milliseconds(1))
    }

    func connect() async throws -> Instant {
        _ = lap()
        let start = try await other.connect()
        guard state.withLock({ $0.place == nil }) else { return start }
        // Steps count from a whole second, so that a report need say no fraction of it.
        var exchange = Exchange(other.advertisement, start: start.flooredToSecond)
        exchange.connectMilliseconds = lap()
        let place = recorder.begin(exchange)
        state.withLock { ($0.place, $0.hasReadMore, $0.notifying) = (place, false, [:]) }
        return start
    }

    func characteristics() async throws -> [Characteristic] {
        _ = lap()
        let found = try await other.characteristics()
        let (elapsed, advertisement) = (lap(), other.advertisement)
        let isFirst = state.withLock { state in
            defer { state.hasReadMore = true }
            return !state.hasReadMore
        }
        guard isFirst, let place = state.withLock(\.place) else { return found }
        recorder.change(place) { exchange in
            let all = Dictionary(found.map { ($0.valueHandle, $0) }, uniquingKeysWith: { first, _ in first })
            exchange.characteristics = Array(
                all.values.sorted { $0.valueHandle < $1.valueHandle }.prefix(ModelReport.mostCharacteristics))
            exchange.discoveryMilliseconds = elapsed
            exchange.advertisement = advertisement
        }
        for characteristic in recorder.wanted(found, isPaired: advertisement.isPaired) {
            do {
                _ = try await read(characteristic)
            } catch let error as GATTError where error != .disconnected && error != .timedOut {
                continue
            } catch RadioError.other {
                continue
            }
        }
        return found
    }

    private static func outcome(_ error: any Error) -> Exchange.Outcome {
        if case GATTError.attribute(let code) = error { .refused(code) } else { .failed }
    }

    func read(_ characteristic: Characteristic) async throws -> CharacteristicValue {
        do {
            let value = try await other.read(characteristic)
            // What was read before the contact, as a service's own copy, is of this moment too.
            add(.read(characteristic.valueHandle, .done(value.octets)), at: value.receivedAt)
            return value
        } catch {
            add(.read(characteristic.valueHandle, Self.outcome(error)))
            throw error
        }
    }

    func write(_ octets: [UInt8], to characteristic: Characteristic, expectingResponse: Bool) async throws {
        do {
            try await other.write(octets, to: characteristic, expectingResponse: expectingResponse)
            add(.write(characteristic.valueHandle, octets, expectsResponse: expectingResponse, .done([])))
        } catch {
            add(
                .write(characteristic.valueHandle, octets, expectsResponse: expectingResponse, Self.outcome(error)))
            throw error
        }
    }

    func startNotifying(_ characteristic: Characteristic) async throws {
        state.withLock { $0.notifying[characteristic.uuid] = characteristic.valueHandle }
        do {
            try await other.startNotifying(characteristic)
            add(.enable(characteristic.valueHandle, .done([])))
        } catch {
            add(.enable(characteristic.valueHandle, Self.outcome(error)))
            throw error
        }
    }

    func stopNotifying(_ characteristic: Characteristic) async throws {
        try await other.stopNotifying(characteristic)
        add(.disable(characteristic.valueHandle))
    }

    func keepNotifying() async { await other.keepNotifying() }

    func nextValues(within timeout: Duration) async throws -> ValueBurst {
        let burst = try await other.nextValues(within: timeout)
        switch burst {
        case .values(let values):
            for value in values {
                guard let handle = state.withLock({ $0.notifying[value.uuid] }) else { continue }
                add(.value(handle, value.octets), at: value.receivedAt)
            }
        case .disconnected: end(byDevice: true)
        case .silence: break
        }
        return burst
    }

    func disconnect() async {
        await other.disconnect()
        end(byDevice: false)
    }

    private func end(byDevice: Bool) {
        add(.disconnect(byDevice: byDevice))
        state.withLock { $0.place = nil }
    }
}
