import BlueZCentral
import GATTClient
import HealthReadings
import Testing

/// Answers with what the meter shows.
private struct Reader: PairingAgent {
    let meter: LabMeter
    /// What to type instead.
    var passkey: UInt32?

    init(_ meter: LabMeter, passkey: UInt32? = nil) {
        self.meter = meter
        self.passkey = passkey
    }

    func passkey(shownBy device: Advertisement) async throws -> UInt32 {
        if let passkey { return passkey }
        return UInt32(try await meter.passkey()) ?? 0
    }

    func show(passkey: UInt32, typed: Int, at device: Advertisement) async {}
    func confirm(_ digits: UInt32, shownBy device: Advertisement) async throws -> Bool { true }
    func allowUnauthenticated(_ device: Advertisement) async throws -> Bool { true }
}

extension LabTests {
    /// The radio as an embedder uses it: what the commands cannot show.
    @Suite(.serialized) struct Radio {
        private static let patience: Duration = .seconds(60)

        private func address(_ meter: LabMeter) throws -> DeviceAddress { try #require(DeviceAddress(meter.address)) }

        private func connect(_ radio: BlueZRadio, _ meter: LabMeter) async throws -> (
            any Peripheral, [UInt16: Characteristic]
        ) {
            let peripheral = try await radio.peripheral(address(meter), within: Self.patience)
            _ = try await peripheral.connect()
            var characteristics: [UInt16: Characteristic] = [:]
            for one in try await peripheral.characteristics() where one.service != 0x1801 {
                characteristics[one.uuid.assignedNumber ?? 0] = one
            }
            return (peripheral, characteristics)
        }

        private func pair(_ radio: BlueZRadio, _ meter: LabMeter) async throws {
            let bond = try await radio.pair(address(meter), within: Self.patience, agent: Reader(meter))
            #expect(bond.address == (try address(meter)) && bond.isTrusted)
            try await radio.peripheral(bond.address, within: Self.patience).disconnect()
        }

        @Test("Records, contexts and answers come in the order in which the meter sent them")
        func order() async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(Meters.accuchek(["records": ["count": 60, "seed": 5], "pace": 0]))
            let radio = BlueZRadio()
            try await pair(radio, meter)
            let (peripheral, characteristics) = try await connect(radio, meter)
            let mark = try await meter.mark()
            for number: UInt16 in [0x2A18, 0x2A34, 0x2A52] {
                try await peripheral.startNotifying(try #require(characteristics[number]))
            }
            try await peripheral.write([1, 1], to: try #require(characteristics[0x2A52]), expectingResponse: true)
            var came: [CharacteristicValue] = []
            while came.last?.uuid != 0x2A52 {
                guard case .values(let values) = try await peripheral.nextValues(within: Self.patience) else { break }
                came += values
            }
            let sent = try await meter.log(since: mark).filter { $0.name == "sent" }
            #expect(came.count == sent.count && came.count > 60)
            #expect(came.map { "\($0.uuid)" } == sent.map(\.characteristic))
            #expect(came.map { $0.octets.hexadecimal } == sent.map(\.hex))
            await peripheral.disconnect()
            await radio.close()
        }

        @Test("A cuff whose link was cut is not enabled at its next connection before somebody asks for it")
        func cutCuff() async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(
                Meters.omron(["records": ["count": 5, "seed": 2]]), ["drop_at_indication": 3, "drop_when": "confirmed"])
            let radio = BlueZRadio()
            try await pair(radio, meter)
            let (peripheral, characteristics) = try await connect(radio, meter)
            let measurement = try #require(characteristics[0x2A35])
            try await peripheral.startNotifying(measurement)
            var came = 0
            while case .values(let values) = try await peripheral.nextValues(within: Self.patience) {
                came += values.count
            }
            #expect(came == 3)
            await peripheral.disconnect()
            let mark = try await meter.mark()
            let (again, _) = try await connect(radio, meter)
            #expect(try await again.nextValues(within: .seconds(3)) == .silence)
            let events = try await meter.log(since: mark)
            #expect(!events.contains { $0.name == "sent" })
            #expect(!events.contains { $0.name == "configured" && $0.characteristic == "2a35" && $0.hex == "0200" })
            try await again.startNotifying(measurement)
            var values: [CharacteristicValue] = []
            while values.count < 5, case .values(let burst) = try await again.nextValues(within: Self.patience) {
                values += burst
            }
            #expect(values.count == 5)
            try await again.stopNotifying(measurement)
            await again.disconnect()
            await radio.close()
        }

        @Test("promise 10: bluetoothd killed while values come: those that came are told, then that it was lost")
        func killed() async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(Meters.accuchek(["records": ["count": 200, "seed": 6]]))
            let radio = BlueZRadio()
            try await pair(radio, meter)
            let (peripheral, characteristics) = try await connect(radio, meter)
            try await peripheral.startNotifying(try #require(characteristics[0x2A18]))
            try await peripheral.startNotifying(try #require(characteristics[0x2A52]))
            try await peripheral.write([1, 1], to: try #require(characteristics[0x2A52]), expectingResponse: true)
            _ = try await peripheral.nextValues(within: Self.patience)
            try await lab.bluetoothd("kill")
            await #expect(throws: RadioError.lost) {
                while case .values = try await peripheral.nextValues(within: Self.patience) {}
            }
            await peripheral.disconnect()
            await #expect(throws: RadioError.noService) { _ = try await radio.bonds() }
            try await lab.bluetoothd("start")
            for await state in radio.adapterStates() {
                if case .ready = state { break }
            }
            let (again, found) = try await connect(radio, meter)
            #expect(try await again.read(try #require(found[0x2A25])).octets == Array("00001808".utf8))
            await again.disconnect()
            await radio.close()
        }

        @Test("A passkey that is wrong is told as that, a link that is lost while it is asked for as that")
        func failures() async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(Meters.accuchek())
            let radio = BlueZRadio()
            let address = try address(meter)
            await #expect(throws: RadioError.pairing(.wrongPasskey)) {
                _ = try await radio.pair(address, within: Self.patience, agent: Reader(meter, passkey: 1))
            }
            #expect(try await radio.bonds() == [])
            struct Leaving: PairingAgent {
                let meter: LabMeter
                func passkey(shownBy device: Advertisement) async throws -> UInt32 {
                    try await meter.drop()
                    try await Task.sleep(for: .seconds(600))
                    return 1
                }
                func show(passkey: UInt32, typed: Int, at device: Advertisement) async {}
                func confirm(_ digits: UInt32, shownBy device: Advertisement) async throws -> Bool { true }
                func allowUnauthenticated(_ device: Advertisement) async throws -> Bool { true }
            }
            await #expect(throws: RadioError.pairing(.disconnected)) {
                _ = try await radio.pair(address, within: Self.patience, agent: Leaving(meter: meter))
            }
            try await pair(radio, meter)
            await radio.close()
        }

        @Test("A device that has lost its key is named when it is connected to")
        func forgotten() async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(Meters.accuchek())
            let radio = BlueZRadio()
            try await pair(radio, meter)
            try await meter.forget()
            let address = try address(meter)
            await #expect(throws: RadioError.forgottenByDevice(address)) {
                let (peripheral, characteristics) = try await connect(radio, meter)
                _ = try await peripheral.read(try #require(characteristics[0x2A25]))
            }
            #expect(try await radio.unpair(address))
            try await pair(radio, meter)
            await radio.close()
        }

        @Test("A meter that comes, goes and comes again is told each time; so are its connections")
        func presence() async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(Meters.omron(), ["advertises": "never"])
            let radio = BlueZRadio()
            let address = try address(meter)
            var coming = radio.peripherals([address]).makeAsyncIterator()
            var connections = radio.connectionChanges([address]).makeAsyncIterator()
            #expect(try await connections.next()?.isConnected == false)
            try await meter.behave(["advertises": "always"])
            let peripheral = try #require(try await coming.next())
            #expect(peripheral.advertisement.address == address)
            #expect(peripheral.advertisement.name == "BLESmart_0000021A28FF")
            _ = try await peripheral.connect()
            #expect(try await connections.next()?.isConnected == true)
            try await meter.drop()
            #expect(try await connections.next()?.isConnected == false)
            #expect(try await peripheral.nextValues(within: Self.patience) == .disconnected)
            let again = try #require(try await coming.next())
            #expect(again.advertisement.address == address)
            await radio.close()
        }

        @Test("promise 10: a radio that is switched off while it listens says so, and hears again when it is on")
        func power() async throws {
            let lab = try await Lab.fresh()
            let meter = try await lab.add(Meters.omron())
            let radio = BlueZRadio()
            let heard = Task { for try await _ in radio.advertisements() {} }
            for await state in radio.adapterStates() {
                if case .ready(let adapter) = state, adapter.isDiscovering { break }
            }
            // A kernel that is busy scanning may refuse at first.
            for attempt in 1...5 {
                do {
                    try await lab.adapter("off")
                    break
                } catch  where attempt < 5 {
                    try await Task.sleep(for: .seconds(1))
                }
            }
            await #expect(throws: RadioError.poweredOff("hci0")) { try await heard.value }
            try await lab.adapter("on")
            for await state in radio.adapterStates() {
                if case .ready = state { break }
            }
            let peripheral = try await radio.peripheral(address(meter), within: Self.patience)
            #expect(try address(meter) == peripheral.advertisement.address)
            await radio.close()
        }
    }
}

extension [UInt8] {
    fileprivate var hexadecimal: String {
        map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}
