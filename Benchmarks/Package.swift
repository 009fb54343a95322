// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "Benchmarks",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "HealthRelay", path: "..")
    ],
    targets: [
        // The store: `swift run -c release store-benchmark DIRECTORY`, beside a bare C loop over SQLite.
        .systemLibrary(
            name: "CSQLiteFloor", path: "SQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
        .target(name: "StoreFloor", dependencies: ["CSQLiteFloor"], path: "StoreFloor"),
        .executableTarget(
            name: "store-benchmark",
            dependencies: ["StoreFloor", .product(name: "HealthRelayStore", package: "HealthRelay")], path: "Store"),
    ],
    swiftLanguageModes: [.v6]
)
