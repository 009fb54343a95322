import ArgumentParser
import FleetCollector
import FleetDocuments
import FleetStore
import Foundation
import GatewaySettings
import HealthReadings
import Logging

struct Configure: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "configure",
        abstract: "Set settings of one gateway, or of all.",
        discussion: """
            The file names everything that is to be set; what an earlier file named and this one doesn't becomes the
            gateway's owner's again. Gateways apply it when they are connected, or refuse it with a reason: see
            `gateways`. These settings can be set: \(FleetConfiguration.keys.joined(separator: ", ")).
            """)

    @OptionGroup var common: CommonOptions
    @Argument(help: "The gateway's id.")
    var gateway: String?
    @Flag(help: "Every gateway, also those that come later.")
    var all = false
    @Option(help: ArgumentHelp("A YAML file of settings, as in a gateway's settings file.", valueName: "file"))
    var file: String

    func run() async throws {
        guard all != (gateway != nil) else {
            throw Problem.usage("name a gateway, or --all")
        }
        var id: GatewayID?
        if let gateway {
            do { id = try GatewayID(gateway) } catch { throw Problem.usage(error.description) }
        }
        let text: String
        do { text = try OrdinaryFile.text(file) } catch {
            throw Problem("settings_unreadable", .noInput, "cannot read \(file): \(error.localizedDescription)")
        }
        let desired = try DesiredSettings(yaml: text, path: file)
        let settings = try common.read()
        common.startLogging(settings)
        let store = try await common.store(settings)
        let version = try await desired.keep(for: id, in: store, at: .systemClock)
        let known = try await store.gateways(hasStatuses: false).compactMap { GatewayID(ifValid: $0.gateway) }
        await store.close()
        let isPublished = try await settings.publish(
            desired, version: version, to: id.map { [$0] } ?? known, logger: Logger(label: "collector"))
        if common.json {
            Output.data(
                JSONValue.object([
                    "gateway": .optional(id?.description), "version": .integer(version),
                    "published": .bool(isPublished),
                ]).text)
        } else {
            Output.data(
                "version \(version) for \(id?.description ?? "all gateways")"
                    + (isPublished ? ", published" : "; gateways get it with their next hello or status"))
        }
    }
}
