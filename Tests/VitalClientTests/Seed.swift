import Testing
@testable import VitalClient
