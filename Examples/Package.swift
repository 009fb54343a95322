// swift-tools-version: 6.2
import Foundation
import PackageDescription

/// Where HealthRelay is: the folder above, or the one that the environment names.
let checkout = ProcessInfo.processInfo.environment["HEALTHRELAY_CHECKOUT"] ?? ".."

func product(_ name: String) -> Target.Dependency { .product(name: name, package: "HealthRelay") }

let package = Package(
    name: "HealthRelayExamples",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "HealthRelay", path: checkout),
        .package(url: "https://github.com/apple/swift-log", "1.6.0"..<"2.0.0"),
    ],
    targets: [
        .executableTarget(name: "Scan", dependencies: [product("HealthRelayDevices")]),
        .executableTarget(
            name: "PairAndRead", dependencies: [product("HealthRelayDevices"), product("HealthRelayStore")]),
        .executableTarget(
            name: "ReplayToJSON", dependencies: [product("HealthRelayDevices"), product("HealthRelayDecoding")]),
        .executableTarget(
            name: "DeliverToYourOwn",
            dependencies: [
                product("HealthRelayDecoding"), product("HealthRelayDelivery"), product("HealthRelayDevices"),
            ]),
        .executableTarget(name: "ReadLibre", dependencies: [product("HealthRelaySensors")]),
        .executableTarget(
            name: "EmbedWithoutStore",
            dependencies: [
                product("HealthRelayDecoding"), product("HealthRelayDevices"),
                .product(name: "Logging", package: "swift-log"),
            ]),
    ],
    swiftLanguageModes: [.v6]
)
