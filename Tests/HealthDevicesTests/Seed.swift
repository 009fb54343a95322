import Testing
@testable import HealthDevices
