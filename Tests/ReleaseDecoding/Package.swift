// swift-tools-version: 6.2
import PackageDescription

// The decoding tests once more, optimised: an optimiser's mistake in a decoder is a wrong reading, and in the eraser a key
// in a file. A package of its own builds these alone in release, without the HTTP stack.
let package = Package(
    name: "ReleaseDecoding",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "HealthRelay", path: "../..")
    ],
    targets: [
        .target(name: "TestWidth", path: "Tests/TestWidth"),
        .target(name: "TestSupport", dependencies: ["TestWidth"], path: "Tests/TestSupport"),
        .testTarget(
            name: "HealthReadingsTests",
            dependencies: ["TestSupport", .product(name: "HealthRelayDecoding", package: "HealthRelay")],
            // What the modules share among themselves is not visible to another package.
            exclude: ["SupportTests.swift", "EscapedTextTests.swift", "TurnstileTests.swift"]),
        .testTarget(
            name: "HCIMonitorTests",
            dependencies: ["TestSupport", .product(name: "HealthRelayDecoding", package: "HealthRelay")]),
        .testTarget(
            name: "GATTProfilesTests",
            dependencies: ["TestSupport", .product(name: "HealthRelayDecoding", package: "HealthRelay")]),
        .target(
            name: "EncodedSensor", dependencies: [.product(name: "HealthRelayDecoding", package: "HealthRelay")],
            path: "Tests/EncodedSensor"),
        .testTarget(
            name: "FreeStyleLibreTests",
            dependencies: [
                "EncodedSensor", "TestSupport", .product(name: "HealthRelayDecoding", package: "HealthRelay"),
            ]),
    ],
    swiftLanguageModes: [.v6]
)
