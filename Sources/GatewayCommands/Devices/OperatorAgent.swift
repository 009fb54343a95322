import GATTClient
import HealthDevices
import HealthReadings
import Synchronization

/// Answers a device that is paired by asking the person who ordered the pairing, wherever their terminal is.
///
/// No digits are kept: they go from the answer to the radio.
final class OperatorAgent: PairingAgent {
    private let output: any OperationOutput
    private let catalogue: Catalogue
    private let failure = Mutex<(any Error)?>(nil)

    init(_ output: any OperationOutput, _ catalogue: Catalogue) {
        self.output = output
        self.catalogue = catalogue
    }

    /// Why the person could not be asked, or did not answer: more to the point than that the pairing was rejected.
    var reason: (any Error)? { failure.withLock(\.self) }

    func passkey(shownBy device: Advertisement) async throws -> UInt32 {
        guard case .passkey(let passkey) = try await ask(.passkey(device: device.title)) else {
            throw PairingFailure.rejectedHere
        }
        return passkey.number
    }

    func show(passkey: UInt32, typed: Int, at device: Advertisement) async {
        guard typed == 0, let passkey = Passkey(passkey) else { return }
        await attempt { try await self.output.note("Type \(passkey.digits) at \(device.title).") }
    }

    func confirm(_ digits: UInt32, shownBy device: Advertisement) async throws -> Bool {
        guard let digits = Passkey(digits) else { throw PairingFailure.rejectedHere }
        return try await confirmation(.comparison(digits, device: device.title))
    }

    /// Who orders the pairing of a device by its address allows it with that; not where the device can show digits by
    /// all that is known of it, and something that cannot has answered in its place.
    func allowUnauthenticated(_ device: Advertisement) async throws -> Bool {
        if catalogue.model(for: device)?.pairing == .passkey {
            return try await confirmation(.unauthenticated(device: device.title))
        }
        await attempt {
            try await self.output.note("\(device.title) pairs without digits, so nothing proves which device it is.")
        }
        return true
    }

    private func confirmation(_ question: Question) async throws -> Bool {
        guard case .confirmation(let isConfirmed) = try await ask(question) else { return false }
        return isConfirmed
    }

    private func ask(_ question: Question) async throws -> Answer {
        do {
            return try await output.ask(question)
        } catch {
            // Where the pairing has ended meanwhile, that it was not answered any more says nothing.
            if !Task.isCancelled { note(error) }
            throw error
        }
    }

    private func attempt(_ body: () async throws -> Void) async {
        do { try await body() } catch { note(error) }
    }

    private func note(_ error: any Error) { failure.withLock { $0 = $0 ?? error } }
}

extension Advertisement {
    /// What a person at the terminal calls it: its name, else its address.
    var title: String { name ?? address?.description ?? "the device" }
}
