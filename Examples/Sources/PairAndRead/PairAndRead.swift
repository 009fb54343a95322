// Pairs a meter and reads it into a store: PairAndRead ADDRESS DIRECTORY

import BlueZCentral
import Foundation
import GATTClient
import HealthDevices
import HealthReadings
import ReadingStore

@main
enum PairAndRead {
    static func main() async {
        let arguments = CommandLine.arguments.dropFirst()
        guard arguments.count == 2, let address = arguments.first.flatMap({ DeviceAddress($0) }),
            let directory = arguments.last
        else { fail("give the meter's address, such as C0:00:00:00:18:08, and a directory for the store") }
        let radio = BlueZRadio()
        do {
            let store = try await ReadingStore.open(
                directory: directory, decoder: ModelFrameDecoder(), clientUserID: "white_bear")
            let manager = DevicesManager(radio: radio, journal: store, memory: store, pairings: store)
            let device = try await manager.pair(address, agent: Terminal()) { progress in
                if case .waitingForReconnect(_, let whatToPress) = progress { print("Please \(whatToPress).") }
            }
            print("paired with \(device.name ?? device.address.description)")

            let summary = try await manager.read(device.address) { event in
                guard case .stored(let outcomes) = event else { return }
                for reading in outcomes.compactMap(\.changedReading) { print(reading.document.text) }
            }
            print("\(summary.received) records, \(summary.isComplete ? "complete" : summary.error ?? "not complete")")
            try store.close()
        } catch let error as RadioError {
            fail("\(error); \(error.hint ?? "")")
        } catch {
            fail("\(error)")
        }
        await radio.close()
    }

    static func fail(_ message: String) -> Never {
        FileHandle.standardError.write(Data("PairAndRead: \(message)\n".utf8))
        exit(1)
    }
}

/// Answers at the terminal what a meter asks for while it is paired.
struct Terminal: PairingAgent {
    func passkey(shownBy device: Advertisement) async throws -> UInt32 {
        print("Type the six digits that \(device.name ?? "the meter") shows:")
        guard let passkey = readLine().flatMap({ UInt32($0) }) else { throw PairingFailure.rejectedHere }
        return passkey
    }

    func show(passkey: UInt32, typed: Int, at device: Advertisement) async {
        print("Type \(passkey) at \(device.name ?? "the meter").")
    }

    func confirm(_ digits: UInt32, shownBy device: Advertisement) async throws -> Bool {
        print("Does \(device.name ?? "the meter") show \(digits)? y/n")
        return readLine() == "y"
    }

    func allowUnauthenticated(_ device: Advertisement) async throws -> Bool { true }
}
