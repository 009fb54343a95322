// swift-tools-version: 6.2
import Foundation
import PackageDescription

// An application that embeds two of the library's products, with version ranges of its own. `Tests/Embedding/run` builds it
// outside the repository, as an embedder would: with its own settings, without the repository's tests and executables.
let package = Package(
    name: "Embedder",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "HealthRelay", path: ProcessInfo.processInfo.environment["HEALTHRELAY_CHECKOUT"] ?? "../.."),
        .package(url: "https://github.com/apple/swift-log", "1.6.0"..<"2.0.0"),
    ],
    targets: [
        .executableTarget(
            name: "Embedder",
            dependencies: [
                .product(name: "HealthRelayDecoding", package: "HealthRelay"),
                .product(name: "HealthRelayDevices", package: "HealthRelay"),
                .product(name: "Logging", package: "swift-log"),
            ])
    ],
    swiftLanguageModes: [.v6]
)
