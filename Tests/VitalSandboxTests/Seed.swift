import Testing
@testable import VitalSandbox
