import Crypto
import Foundation
import GatewaySettings
import HealthDevices
import HealthReadings
import Logging
import ReadingDelivery
import ReadingStore
import VitalClient
import VitalDestination

/// A destination that the gateway delivers to, or why it does not.
struct DestinationLink: Sendable {
    /// What the settings said when the gateway was started.
    let setting: DestinationSetting
    /// The destination; `nil` if it has no credentials or its settings cannot be used.
    let open: OpenDestination?
    /// Delivery; `nil` where there is no destination.
    let worker: OutboxWorker?
    /// Why delivery is paused until the settings are others; `nil` if they can be used.
    let refusal: Problem?
    /// Tells these settings from others: a refused key is forgotten once it is another.
    var settingsMark = ""

    var name: String { setting.name }

    /// Whether it is a Vital-compatible server.
    var isServer: Bool { setting.kind == .vital }

    /// What it takes.
    var sort: DeliverySort { setting.kind.opening.rules(setting).hasWholeDays ? .summaries : .events }
}

/// A destination that can be delivered to.
struct OpenDestination: Sendable {
    var destination: any Destination
    /// Where it is, for people.
    var address: String
    /// The server, where it is a Vital-compatible one.
    var vital: VitalLink?
    /// Whether another address is another place: what waits is then held until somebody accepts the new one.
    var isAddressBinding = true
    /// How failures are waited out; `nil`: as usual.
    var backoff: Backoff?
    /// How long a reading that was handed over waits for its receipt; `nil`: as usual.
    var receiptTimeout: Duration?
    /// How long that time becomes while receipts lag; `nil`: it stays the same.
    var longestReceiptTimeout: Duration?

    /// What the store remembers an address by.
    var fingerprint: String? {
        guard isAddressBinding else { return nil }
        return Data(SHA256.hash(data: Data(address.utf8))).base64EncodedString()
    }
}

/// A Vital-compatible server, and the people and sources there.
struct VitalLink: Sendable {
    var connection: VitalConnection
    var api: VitalAPI
    var sources: SourceKeeper
}

/// What destinations are opened with.
struct DestinationWorkshop: Sendable {
    let settings: Settings
    /// The state directory.
    let state: String
    let store: ReadingStore
    let catalogue: Catalogue
    /// Takes settings from the centre of a fleet; `nil`: no destination is one.
    var fleet: FleetSettingsDesk?
    let logger: Logger

    /// Opens a Vital-compatible server.
    func open(_ connection: VitalConnection, as name: String) -> OpenDestination {
        let api = VitalAPI(
            server: connection.server, credentials: connection.credentials, authorities: connection.authorities,
            logger: logger)
        let catalogue = catalogue
        let conversion = SampleConversion { id in
            catalogue[id].map { ModelName(brand: $0.brand, model: $0.name) }
        }
        let destination = VitalDestination(
            name: name, store: store, api: api, policy: settings["sources.policy"] == "require" ? .require : .create,
            conversion: conversion, logger: logger)
        return OpenDestination(
            destination: destination, address: connection.server.baseURL,
            vital: VitalLink(connection: connection, api: api, sources: destination.sources))
    }

    /// Opens a destination of the settings; what keeps it from being used is its ``DestinationLink/refusal``.
    func link(_ setting: DestinationSetting) -> DestinationLink {
        do {
            return link(setting, try setting.kind.opening.open(setting, self))
        } catch {
            let problem = Problem(describing: error) ?? .unexpected(error)
            return DestinationLink(setting: setting, open: nil, worker: nil, refusal: problem)
        }
    }

    /// A destination with its worker.
    func link(_ setting: DestinationSetting, _ open: OpenDestination?) -> DestinationLink {
        var options = OutboxWorker.Options()
        options.isAutomatic = !settings.isManual(setting)
        if let backoff = open?.backoff { options.backoff = backoff }
        if let timeout = open?.receiptTimeout { options.receiptTimeout = timeout }
        options.longestReceiptTimeout = open?.longestReceiptTimeout
        options.settingsMark = settingsMark(setting, open)
        // Nor does a command without settings say where a destination is: see `Destinations.heed()`.
        options.address = settings.hasImpliedDestination ? nil : open?.fingerprint
        let worker = open.map {
            OutboxWorker(store: store, destination: $0.destination, options: options, logger: logger)
        }
        return DestinationLink(
            setting: setting, open: open, worker: worker, refusal: nil, settingsMark: options.settingsMark)
    }

    /// Tells a destination's settings from others, with what is in the files that they name.
    ///
    /// Of secrets there are two octets in it: enough to notice that one was changed, and too few to find it by trying.
    private func settingsMark(_ setting: DestinationSetting, _ open: OpenDestination?) -> String {
        var secrets = SHA256()
        for path in setting.files {
            secrets.update(data: Data(path.utf8))
            if let octets = OrdinaryFile.contents(path) { secrets.update(data: octets) }
        }
        let named = SHA256.hash(data: Data("\(open?.address ?? "")\n\(setting.access)".utf8))
        return (Array(named.prefix(8)) + Array(secrets.finalize().prefix(2))).hexadecimal()
    }
}
