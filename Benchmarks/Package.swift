// swift-tools-version: 6.2
import PackageDescription

let settings: [SwiftSetting] = [.enableUpcomingFeature("ExistentialAny"), .treatAllWarnings(as: .error)]
let decoding: Target.Dependency = .product(name: "HealthRelayDecoding", package: "HealthRelay")
let delivery: Target.Dependency = .product(name: "HealthRelayDelivery", package: "HealthRelay")
let devices: Target.Dependency = .product(name: "HealthRelayDevices", package: "HealthRelay")
let sensors: Target.Dependency = .product(name: "HealthRelaySensors", package: "HealthRelay")

let package = Package(
    name: "Benchmarks",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "HealthRelay", path: "..")
    ],
    targets: [
        // Capture: the file, the floor, and HCICapture (see Capture/run.sh).
        .executableTarget(name: "capture-generator", path: "Capture/Generator"),
        .executableTarget(name: "capture-walk", path: "Capture/Walk"),
        .executableTarget(name: "capture-count", dependencies: [decoding], path: "Capture/Count"),
        // Decoding of single records beside a plain C decoder.
        .target(name: "CDecode", path: "Decode/CDecode", cSettings: [.unsafeFlags(["-O2"])]),
        .executableTarget(
            name: "DecodeBenchmark", dependencies: ["CDecode", decoding], path: "Decode/DecodeBenchmark",
            swiftSettings: settings),
        // Decoding of a sensor's memory beside a plain C decoder.
        .target(
            name: "CLibre", path: "Libre/CLibre", cSettings: [.unsafeFlags(["-O2"])],
            linkerSettings: [.linkedLibrary("m")]),
        .executableTarget(
            name: "LibreBenchmark", dependencies: ["CLibre", decoding], path: "Libre/LibreBenchmark",
            swiftSettings: settings),
        // The store beside a bare C loop over SQLite: `store-benchmark [DIRECTORY [READINGS]]`, in a release build.
        .systemLibrary(name: "CSQLiteFloor", path: "Store/SQLite", pkgConfig: "sqlite3"),
        .target(name: "StoreFloor", dependencies: ["CSQLiteFloor"], path: "Store/StoreFloor"),
        .executableTarget(
            name: "store-benchmark",
            dependencies: [
                "StoreFloor", .product(name: "HealthRelayStore", package: "HealthRelay"),
                .product(name: "HealthRelayFormats", package: "HealthRelay"),
            ],
            path: "Store/StoreBenchmark"),
        // Ten years of a home: `decade-fill DIRECTORY COUNT [SEED]` (see Decade/measure.py).
        .target(
            name: "HomeOfDecade",
            dependencies: [
                "EncodedSensor", decoding, devices, .product(name: "HealthRelayStore", package: "HealthRelay"),
            ],
            path: "Decade/Home", swiftSettings: settings),
        .executableTarget(
            name: "decade-fill",
            dependencies: ["HomeOfDecade", .product(name: "HealthRelayStore", package: "HealthRelay")],
            path: "Decade/Fill", swiftSettings: settings),
        // The library's calls on such a store, beside bare queries (see Decade/measure.py).
        .executableTarget(
            name: "decade-calls",
            dependencies: [
                "HomeOfDecade", decoding, .product(name: "HealthRelayStore", package: "HealthRelay"),
                .product(name: "HealthRelayFormats", package: "HealthRelay"),
            ],
            path: "Decade/Calls", swiftSettings: settings),
        // The bytes of a day in the commits that the gateway has, beside a bare loop over SQLite (see Decade/bytes/measure.py).
        .executableTarget(
            name: "decade-bytes",
            dependencies: ["HomeOfDecade", .product(name: "HealthRelayStore", package: "HealthRelay")],
            path: "Decade/bytes/Ours", swiftSettings: settings),
        .executableTarget(
            name: "decade-floor", dependencies: ["CSQLiteFloor"], path: "Decade/bytes/Floor",
            cSettings: [.unsafeFlags(["-O2"])]),
        // An export of Apple Health into the store, beside a Python importer (see Import/run.sh).
        .executableTarget(
            name: "import-benchmark",
            dependencies: [
                devices, .product(name: "HealthRelayImport", package: "HealthRelay"),
                .product(name: "HealthRelayStore", package: "HealthRelay"),
            ],
            path: "Import/ImportBenchmark", swiftSettings: settings),
        // Matching an advertisement with 10 to 10,000 models, in a release build.
        .executableTarget(
            name: "catalogue-benchmark", dependencies: [devices],
            path: "Catalogue/CatalogueBenchmark", swiftSettings: settings),
        // A backlog delivered to each destination's null sink, beside Python clients (see Delivery/run.sh).
        .target(
            name: "DeliveryBacklog",
            dependencies: [delivery, .product(name: "HealthRelayMQTT", package: "HealthRelay")],
            path: "Delivery/Backlog", swiftSettings: settings),
        .executableTarget(
            name: "delivery-benchmark", dependencies: ["DeliveryBacklog", delivery],
            path: "Delivery/DeliveryBenchmark", swiftSettings: settings),
        // A scan of a sensor beside a bare C program over libnfc (see NFC/run.sh), at the emulated reader of the tests.
        .executableTarget(
            name: "nfc-floor", path: "NFC/Floor", cSettings: [.unsafeFlags(["-O2"])],
            linkerSettings: [.linkedLibrary("nfc")]),
        .target(
            name: "EmulatedReader", dependencies: [sensors], path: "NFC/EmulatedReader", swiftSettings: settings),
        .target(
            name: "EncodedSensor", dependencies: [sensors, decoding], path: "NFC/EncodedSensor",
            swiftSettings: settings),
        .executableTarget(
            name: "scan-benchmark", dependencies: ["EmulatedReader", "EncodedSensor", sensors],
            path: "NFC/ScanBenchmark", swiftSettings: settings),
        // Notifications over a private bus, beside a C libdbus reader and bleak (see DBus/run.sh), and while the same
        // process delivers to five destinations (see DBus/busy.sh).
        .systemLibrary(name: "CDBusFloor", path: "DBus/CDBusFloor", pkgConfig: "dbus-1"),
        .executableTarget(
            name: "bus-c-reader", dependencies: ["CDBusFloor"], path: "DBus/CReader",
            cSettings: [.headerSearchPath("../../Decode/CDecode/include"), .unsafeFlags(["-O2"])]),
        .executableTarget(
            name: "notifications",
            dependencies: ["DeliveryBacklog", decoding, .product(name: "HealthRelayBus", package: "HealthRelay")],
            path: "DBus/Notifications", swiftSettings: settings),
        // Reading a meter through a real bluetoothd (see Radio/run.sh).
        .target(name: "Resident", path: "Radio/Resident", swiftSettings: settings),
        .target(
            name: "ReadCourse", dependencies: ["Resident", devices], path: "Radio/ReadCourse", swiftSettings: settings),
        .executableTarget(
            name: "read-benchmark",
            dependencies: ["ReadCourse", .product(name: "HealthRelayStore", package: "HealthRelay")],
            path: "Radio/ReadBenchmark", swiftSettings: settings),
        .executableTarget(
            name: "read-in-memory", dependencies: ["ReadCourse", devices], path: "Radio/ReadInMemory",
            swiftSettings: settings),
        .executableTarget(
            name: "empty", dependencies: ["Resident"], path: "Radio/Empty", swiftSettings: settings),
    ],
    swiftLanguageModes: [.v6]
)
