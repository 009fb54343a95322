import GatewayCommands
import GatewaySettings
import HealthDevices
import Testing

/// What a command says of the file with the keys of devices.
@Suite struct DeviceSecretProblemTests {
    @Test("a file of keys that can't be used ends a command with 74, its place and what to do")
    func told() {
        let path = "/state/device-keys.json"
        #expect(
            Problem(describing: DeviceSecretFile.Failure.unreadable(path: path))
                == Problem(
                    "store_io", .inputOutput, "cannot read the keys of paired devices in /state/device-keys.json",
                    hint: "check the file's owner and mode; without it the devices have to be paired again"))
        #expect(
            Problem(describing: DeviceSecretFile.Failure.notWritten(path: path, reason: "No space left on device"))
                == Problem(
                    "store_io", .inputOutput,
                    "cannot keep a device's key in /state/device-keys.json: No space left on device",
                    hint: "without it the device has to be paired again: free space, or check the directory's owner"))
    }
}
