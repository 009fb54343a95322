import GATTClient
import HealthReadings
import Logging

extension DevicesManager {
    /// Meters as they are heard: each when it is new, and again when what it says of itself has changed.
    ///
    /// Only devices the catalogue knows are told of, and those that are bonded. Ending the iteration ends discovery.
    ///
    /// - Parameter models: the models to look for, ``devices(for:)`` a brand for example; nil for all.
    /// - Throws: `RadioError` where the radio cannot be used, or no longer.
    public func search(for models: [DeviceModel]? = nil) -> AsyncThrowingStream<FoundDevice, any Error> {
        let wanted = models.map { Set($0.map(\.id)) }
        return .producing { yield in
            let known = try await pairings.pairings().byAddress
            for try await advertisement in radio.advertisements() {
                let remembered = advertisement.address.flatMap { known[$0] }?.device.model
                let model =
                    catalogue.model(catalogue.model(for: advertisement), knownAs: remembered)
                    ?? remembered.flatMap { catalogue[$0] }
                let choices = model?.standsFor.isEmpty == false ? [] : catalogue.choices(for: advertisement)
                guard model != nil || !choices.isEmpty || Self.isKnownMeter(advertisement, among: known) else {
                    continue
                }
                // Any of those it may be counts.
                if let wanted, !(([model].compactMap(\.self) + choices).contains { wanted.contains($0.id) }) {
                    continue
                }
                yield(FoundDevice(advertisement: advertisement, model: model, choices: choices))
            }
        }
    }

    /// Whether a device of no listed model is one that was paired here.
    private static func isKnownMeter(_ advertisement: Advertisement, among known: [DeviceAddress: DevicePairing])
        -> Bool
    {
        guard advertisement.isPaired, let address = advertisement.address else { return false }
        return known[address]?.state.isPaired == true
    }

    /// Devices connecting and disconnecting, whoever causes it: first how each stands, then each change.
    ///
    /// A radio that goes away in the middle is waited for: its devices are told of as disconnected, and again as they
    /// stand when it is back.
    ///
    /// - Parameter addresses: the devices; all paired ones where this is empty.
    /// - Throws: `RadioError` where the radio cannot be used at the beginning.
    public func monitorConnection(
        _ addresses: Set<DeviceAddress> = []
    ) -> AsyncThrowingStream<ConnectionChange, any Error> {
        .producing { yield in
            var wanted = try await reconcilePairings()
            if !addresses.isEmpty {
                wanted = []
                for address in addresses { wanted.insert(try await bonded(address) ?? address) }
            }
            var connected: Set<DeviceAddress> = []
            var hasBegun = false
            while !Task.isCancelled {
                do {
                    for try await change in radio.connectionChanges(wanted) {
                        hasBegun = true
                        if change.isConnected {
                            connected.insert(change.address)
                        } else {
                            connected.remove(change.address)
                        }
                        yield(change)
                    }
                    return
                } catch let error as RadioError where hasBegun && error.concernsTheRadio {
                    logger.notice("connections cannot be followed now: \(error)")
                    for address in connected.sorted(by: { $0.bits < $1.bits }) {
                        yield(ConnectionChange(address: address, isConnected: false, at: .systemClock))
                    }
                    connected = []
                    // The state may still be the one of before.
                    try await clock.sleep(for: .seconds(1))
                    for await state in radio.adapterStates() { if case .ready = state { break } }
                }
            }
        }
    }
}
