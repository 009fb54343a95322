// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "Benchmarks",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "HealthRelay", path: "..")
    ],
    targets: [
        // The store beside a bare C loop over SQLite: `store-benchmark [DIRECTORY [READINGS]]`, in a release build.
        .systemLibrary(name: "CSQLiteFloor", path: "Store/SQLite", pkgConfig: "sqlite3"),
        .target(name: "StoreFloor", dependencies: ["CSQLiteFloor"], path: "Store/StoreFloor"),
        .executableTarget(
            name: "store-benchmark",
            dependencies: ["StoreFloor", .product(name: "HealthRelayStore", package: "HealthRelay")],
            path: "Store/StoreBenchmark"),
    ],
    swiftLanguageModes: [.v6]
)
